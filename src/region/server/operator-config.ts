// The operator's configuration of the models in a region, and its merge with the manifests.

import type { ArtifactRef, TierManifest } from "../../registry/manifest.ts";
import { mergeServingConfigs, type ServingConfig } from "../../registry/serving-config.ts";
import type { VersionPolicy } from "./version-policy.ts";

/** Configuration of one model, or of all models. */
export interface OperatorModelConfig {
  readonly versionPolicy?: VersionPolicy | undefined;
  /** Whether the model is loaded before its first request. */
  readonly preload?: boolean | undefined;
  readonly serving: ServingConfig<ArtifactRef>;
  /** Keyed by tier id. */
  readonly tiers?: ReadonlyMap<string, ServingConfig<ArtifactRef>>;
}

export interface OperatorConfig {
  /** For every model. */
  readonly allModels: OperatorModelConfig;
  readonly models: ReadonlyMap<string, OperatorModelConfig>;
  /** Values that neither operator nor manifest sets. */
  readonly defaults: ServingConfig<ArtifactRef>;
  /** The operator's own warm-up files, keyed by SHA-256. */
  readonly warmupFiles: ReadonlyMap<string, Uint8Array>;
}

export const EMPTY_OPERATOR_CONFIG: OperatorConfig = {
  allModels: { serving: {} },
  models: new Map(),
  defaults: {},
  warmupFiles: new Map(),
};

/** The default is `all`: edges request versions by number, and versions without requests are not loaded. */
export function versionPolicyOf(
  { allModels, models }: OperatorConfig,
  model: string,
): VersionPolicy {
  return models.get(model)?.versionPolicy ?? allModels.versionPolicy ?? "all";
}

export function shouldPreload({ allModels, models }: OperatorConfig, model: string): boolean {
  return models.get(model)?.preload ?? allModels.preload ?? false;
}

/**
 * Merges configurations, the most specific knowledge first: the operator of the model on this hardware, then the model's
 * builder, then the defaults. The operator's values for all models also override the builder. Values that should not do so
 * belong in the defaults, which come from the settings.
 */
export function resolveServingConfig(
  { allModels, models, defaults }: OperatorConfig,
  model: string,
  tier: Pick<TierManifest, "id" | "serving">,
): ServingConfig<ArtifactRef> {
  const own = models.get(model);
  return mergeServingConfigs(
    own?.tiers?.get(tier.id),
    own?.serving,
    allModels.serving,
    tier.serving,
    defaults,
  );
}
