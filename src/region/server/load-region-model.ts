// Loads a version from the model store: verifies it, checks it against its manifest, and warms it up.

import { registryErrors } from "../../registry/errors.ts";
import type { ArtifactRef, Manifest, Resumption, TierManifest } from "../../registry/manifest.ts";
import type { ModelStore } from "../../registry/model-store.ts";
import type { ServingConfig } from "../../registry/serving-config.ts";
import type { Session } from "../../runtime/runtime.ts";
import { parseVersionLabels } from "../../tasks/labels.ts";
import type { TaskInput } from "../../tasks/task.ts";
import { getTask } from "../../tasks/tasks.ts";
import { regionServerErrors } from "./errors.ts";
import {
  type OpenedTier,
  openResumption,
  openTier,
  type OpenTierDependencies,
} from "./open-tier.ts";
import { type OperatorConfig, resolveServingConfig } from "./operator-config.ts";

export interface LoadedRegionTier extends OpenedTier {
  readonly manifest: TierManifest;
  /** Merged from the manifest, the operator's configuration and the region's defaults. */
  readonly serving: ServingConfig<ArtifactRef>;
  /** The rest of the graph, which resumes an edge tier's work; absent if the manifest has none. */
  readonly resumption?: LoadedResumption;
}

export interface LoadedResumption {
  /** Id of the edge tier whose work it resumes. */
  readonly edgeTier: string;
  /** Name of both tiers in figures, because the resumption runs and queues separately. */
  readonly name: string;
  readonly session: Session;
}

/** A model version with all its region tiers; it has at least one. */
export interface LoadedRegionModel {
  readonly manifest: Manifest;
  /** Decodes one task input; absent for models that take tensors only. @throws as Task.decodeInput */
  readonly parseInput?: (bytes: Uint8Array, index: number) => TaskInput;
  /** Class labels, in the order of the logits. */
  readonly labels?: readonly string[];
  readonly tiers: readonly [LoadedRegionTier, ...LoadedRegionTier[]];
  /** Memory use as far as the runtime reports it; at least the graphs' size per instance. */
  readonly memoryBytes: number;
}

export interface LoadModelOptions extends Omit<OpenTierDependencies, "readFile"> {
  readonly store: ModelStore;
  readonly operatorConfig: OperatorConfig;
  /** Timeout of the store for one file. */
  readonly storeTimeoutMs: number;
  /** Called with the minimum memory of the graphs, before the first one is read. @throws model_too_large, no_room */
  readonly reserveMemory: (bytes: number) => Promise<void>;
}

interface PlannedTier {
  readonly manifest: TierManifest;
  readonly serving: ServingConfig<ArtifactRef>;
}

/**
 * @throws model_not_found, version_not_found, no_region_tier; model_store_unavailable, artifact_corrupt;
 * manifest_invalid if manifest and graph do not match; preprocessor_invalid; session_failed, warmup_failed;
 * and what `reserveMemory` throws.
 */
export async function loadRegionModel(
  options: LoadModelOptions,
  model: string,
  version: number,
): Promise<LoadedRegionModel> {
  const { store, operatorConfig, storeTimeoutMs, reserveMemory } = options;
  const storeTimeout = () => AbortSignal.timeout(storeTimeoutMs);
  const manifest = await requireManifest(store, model, version, storeTimeout());
  const planned = manifest.tiers
    .filter(({ place }) => place === "region")
    .map((tier): PlannedTier => ({
      manifest: tier,
      serving: resolveServingConfig(operatorConfig, model, tier),
    }));
  if (planned.length === 0) throw regionServerErrors.noRegionTier(model, version);
  await reserveMemory(planned.reduce((sum, tier) => sum + graphBytes(tier), 0));

  const readFile = async (file: ArtifactRef) =>
    operatorConfig.warmupFiles.get(file.sha256) ?? (await store.readArtifact(file, storeTimeout()));
  const { labels: labelFile } = manifest;
  const labels =
    labelFile === undefined
      ? {}
      : { labels: parseVersionLabels(manifest, await readFile(labelFile)) };
  const tiers: LoadedRegionTier[] = [];
  try {
    for (const tier of planned)
      tiers.push(await loadTier(manifest, tier, { ...options, readFile }));
  } catch (error) {
    await disposeTiers(tiers);
    throw error;
  }
  const [first, ...others] = tiers;
  if (first === undefined) throw regionServerErrors.noRegionTier(model, version);
  const memoryBytes = tiers.reduce(
    (sum, tier) =>
      sum +
      Math.max(
        sessionsOf(tier).reduce((total, { memoryBytes }) => total + memoryBytes, 0),
        graphBytes(tier),
      ),
    0,
  );
  return {
    manifest,
    ...createInputParser(manifest),
    ...labels,
    tiers: [first, ...others],
    memoryBytes,
  };
}

/** @throws model_not_found, version_not_found, model_store_unavailable, manifest_invalid */
export async function requireManifest(
  store: ModelStore,
  model: string,
  version: number,
  signal?: AbortSignal,
): Promise<Manifest> {
  const manifest = await store.readManifest(model, version, signal);
  if (manifest !== undefined) return manifest;
  const versions = await store.listVersions(model, signal);
  throw versions.length === 0
    ? registryErrors.modelNotFound(model)
    : registryErrors.versionNotFound(model, version);
}

async function loadTier(
  manifest: Manifest,
  { manifest: tier, serving }: PlannedTier,
  opener: OpenTierDependencies,
): Promise<LoadedRegionTier> {
  const loaded = { manifest: tier, serving, ...(await openTier(manifest, tier, serving, opener)) };
  const resumes = resumptionOf(tier);
  if (resumes === undefined) return loaded;
  const name = `${tier.id}/${resumes.tier}`;
  try {
    const { session } = await openResumption(manifest, tier, resumes, name, serving, opener);
    return { ...loaded, resumption: { edgeTier: resumes.tier, name, session } };
  } catch (error) {
    await disposeTiers([loaded]);
    throw error;
  }
}

/** Disposes all sessions of these tiers, even if some of them fail. */
export async function disposeTiers(tiers: readonly LoadedRegionTier[]): Promise<void> {
  await Promise.allSettled(tiers.flatMap(sessionsOf).map((session) => session.dispose()));
}

const sessionsOf = ({ session, resumption }: LoadedRegionTier): Session[] =>
  resumption === undefined ? [session] : [session, resumption.session];
const resumptionOf = (tier: TierManifest): Resumption | undefined =>
  "resumes" in tier ? tier.resumes : undefined;
const graphBytes = ({ manifest, serving }: PlannedTier) =>
  (manifest.graph.size + (resumptionOf(manifest)?.graph.size ?? 0)) * (serving.instances ?? 1);

function createInputParser(manifest: Manifest): Pick<LoadedRegionModel, "parseInput"> {
  if (manifest.task === "tensor") return {};
  const task = getTask(manifest.task);
  return { parseInput: (bytes, index) => task.decodeInput(bytes, index, manifest.input) };
}
