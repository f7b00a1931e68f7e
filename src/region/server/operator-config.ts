// What a region's operator says of the models it serves, and how that goes together with what their manifests say.

import type { ArtifactRef, TierManifest } from "../../registry/manifest.ts";
import { mergeServingConfigs, type ServingConfig } from "../../registry/serving-config.ts";
import type { VersionPolicy } from "./version-policy.ts";

/** Of one model, or of all. */
export interface OperatorModelConfig {
  readonly versionPolicy?: VersionPolicy | undefined;
  /** Whether it is loaded before anyone asks for it. */
  readonly preload?: boolean | undefined;
  readonly serving: ServingConfig<ArtifactRef>;
  /** By the tier's id. */
  readonly tiers?: ReadonlyMap<string, ServingConfig<ArtifactRef>>;
}

export interface OperatorConfig {
  /** For every model. */
  readonly allModels: OperatorModelConfig;
  readonly models: ReadonlyMap<string, OperatorModelConfig>;
  /** What neither says, and no manifest. */
  readonly defaults: ServingConfig<ArtifactRef>;
  /** The operator's own warm-up files, by SHA-256. */
  readonly warmupFiles: ReadonlyMap<string, Uint8Array>;
}

export const EMPTY_OPERATOR_CONFIG: OperatorConfig = {
  allModels: { serving: {} },
  models: new Map(),
  defaults: {},
  warmupFiles: new Map(),
};

/** By default all: an edge asks for versions by number, and those that nobody asks for are not loaded. */
export function versionPolicyOf(
  { allModels: all, models }: OperatorConfig,
  model: string,
): VersionPolicy {
  return models.get(model)?.versionPolicy ?? all.versionPolicy ?? "all";
}

export function shouldPreload({ allModels: all, models }: OperatorConfig, model: string): boolean {
  return models.get(model)?.preload ?? all.preload ?? false;
}

/**
 * Whoever knows more goes first: the operator of the model on this hardware, then the model's builder, then the defaults.
 * What the operator says of all models overrules the builder too; what should not is said in the defaults, which are the settings.
 */
export function resolveServingConfig(
  { allModels: all, models, defaults }: OperatorConfig,
  model: string,
  tier: Pick<TierManifest, "id" | "serving">,
): ServingConfig<ArtifactRef> {
  const own = models.get(model);
  return mergeServingConfigs(
    own?.tiers?.get(tier.id),
    own?.serving,
    all.serving,
    tier.serving,
    defaults,
  );
}
