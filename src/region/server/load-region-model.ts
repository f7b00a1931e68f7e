// From a version in the model store to something that answers: verified, consistent with its manifest, and warmed up.

import { regionServerErrors } from "./errors.ts";
import { registryErrors } from "../../registry/errors.ts";
import type { ArtifactRef, Manifest, Resumption, TierManifest } from "../../registry/manifest.ts";
import type { ModelStore } from "../../registry/model-store.ts";
import type { ServingConfig } from "../../registry/serving-config.ts";
import { parseVersionLabels } from "../../tasks/labels.ts";
import type { Session } from "../../runtime/runtime.ts";
import type { TaskInput } from "../../tasks/task.ts";
import { getTask } from "../../tasks/tasks.ts";
import { type OperatorConfig, resolveServingConfig } from "./operator-config.ts";
import {
  type OpenedTier,
  openResumption,
  openTier,
  type OpenTierDependencies,
} from "./open-tier.ts";

export interface LoadedRegionTier extends OpenedTier {
  readonly manifest: TierManifest;
  /** The manifest's, the operator's and the region's defaults, merged. */
  readonly serving: ServingConfig<ArtifactRef>;
  /** The rest of its graph, for what an edge tier has begun; absent where its manifest has none. */
  readonly resumption?: LoadedResumption;
}

export interface LoadedResumption {
  /** Of the edge tier. */
  readonly edgeTier: string;
  /** Of the two tiers: for figures, since it runs and waits apart from its tier. */
  readonly name: string;
  readonly session: Session;
}

/** A version of a model with all its region tiers, of which it has one at least. */
export interface LoadedRegionModel {
  readonly manifest: Manifest;
  /** Reads one of the task's own inputs; absent where there are none. @throws as Task.decodeInput */
  readonly parseInput?: (bytes: Uint8Array, index: number) => TaskInput;
  /** In the order of the logits. */
  readonly labels?: readonly string[];
  readonly tiers: readonly [LoadedRegionTier, ...LoadedRegionTier[]];
  /** Of memory, as far as the runtime can tell; at least its graphs', for each instance. */
  readonly memoryBytes: number;
}

export interface LoadModelOptions extends Omit<OpenTierDependencies, "readFile"> {
  readonly store: ModelStore;
  readonly operatorConfig: OperatorConfig;
  /** How long the store may take for one file. */
  readonly storeTimeoutMs: number;
  /** Called with what the graphs will take at least, before the first is read. @throws model_too_large, no_room */
  readonly reserveMemory: (bytes: number) => Promise<void>;
}

interface PlannedTier {
  readonly manifest: TierManifest;
  readonly serving: ServingConfig<ArtifactRef>;
}

/**
 * @throws model_not_found, version_not_found, no_region_tier; model_store_unavailable, artifact_corrupt;
 * manifest_invalid where manifest and graph do not belong together; preprocessor_invalid; session_failed, warmup_failed;
 * and what `reserveMemory` throws.
 */
export async function loadRegionModel(
  options: LoadModelOptions,
  model: string,
  version: number,
): Promise<LoadedRegionModel> {
  const { store, operatorConfig: config, storeTimeoutMs, reserveMemory: makeRoom } = options;
  const inTime = () => AbortSignal.timeout(storeTimeoutMs);
  const manifest = await requireManifest(store, model, version, inTime());
  const planned = manifest.tiers
    .filter(({ place }) => place === "region")
    .map((tier): PlannedTier => ({
      manifest: tier,
      serving: resolveServingConfig(config, model, tier),
    }));
  if (planned.length === 0) throw regionServerErrors.noRegionTier(model, version);
  await makeRoom(planned.reduce((sum, tier) => sum + graphBytes(tier), 0));

  const readFile = async (file: ArtifactRef) =>
    config.warmupFiles.get(file.sha256) ?? (await store.readArtifact(file, inTime()));
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
  const bytes = tiers.reduce(
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
    ...inputParserOf(manifest),
    ...labels,
    tiers: [first, ...others],
    memoryBytes: bytes,
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

/** Whatever comes of each. */
export async function disposeTiers(tiers: readonly LoadedRegionTier[]): Promise<void> {
  await Promise.allSettled(tiers.flatMap(sessionsOf).map((session) => session.dispose()));
}

const sessionsOf = ({ session, resumption }: LoadedRegionTier): Session[] =>
  resumption === undefined ? [session] : [session, resumption.session];
const resumptionOf = (tier: TierManifest): Resumption | undefined =>
  "resumes" in tier ? tier.resumes : undefined;
const graphBytes = ({ manifest, serving }: PlannedTier) =>
  (manifest.graph.size + (resumptionOf(manifest)?.graph.size ?? 0)) * (serving.instances ?? 1);

function inputParserOf(manifest: Manifest): Pick<LoadedRegionModel, "parseInput"> {
  if (manifest.task === "tensor") return {};
  const task = getTask(manifest.task);
  return { parseInput: (bytes, index) => task.decodeInput(bytes, index, manifest.input) };
}
