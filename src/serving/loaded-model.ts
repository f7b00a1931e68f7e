// Loaded model: one version of a model in this isolate, with its labels and a cascade or encoder for its task.

import { decodePredictions } from "../cascade/calibration.ts";
import type { CascadeTier } from "../cascade/cascade.ts";
import type { Deadline } from "../cascade/deadline.ts";
import type { NamedTensors } from "../core/tensor.ts";
import { regionErrors } from "../region/errors.ts";
import type { RegionClient } from "../region/region-client.ts";
import type {
  ArtifactRef,
  ClassificationManifest,
  ClassificationTier,
  Manifest,
} from "../registry/manifest.ts";
import type { ModelStore } from "../registry/model-store.ts";
import type { ImageDecoder } from "../tasks/image/image.ts";
import { parseVersionLabels } from "../tasks/labels.ts";
import type { Preprocessor, Task, TaskInput } from "../tasks/task.ts";
import { getTask } from "../tasks/tasks.ts";
import type { EdgeSessions } from "./edge-sessions.ts";
import { createLazy, type Lazy } from "./lazy-value.ts";
import { createLoadedEncoder, type LoadedEncoder } from "./loaded-encoder.ts";
import type { ResolvedVersion } from "./model-catalog.ts";
import { type PartialRun, createResumableRegionCall } from "./partial-run.ts";
import { createRegionCall } from "./region-call.ts";
import type { RequestContext } from "./request-context.ts";
import { tierAttributes, withSpan } from "./with-span.ts";

export interface LoadedModelDependencies {
  readonly store: ModelStore;
  readonly sessions: EdgeSessions;
  /** Absent if no region is configured; region tiers then fail with region_unavailable. */
  readonly region: RegionClient | undefined;
  /** Absent if no edge tier of the deployment accepts images. */
  readonly imageDecoder?: ImageDecoder | undefined;
  /** Timeout of loading one artifact. */
  readonly storeTimeoutMs: number;
}

export interface LoadedEdgeModel {
  /** Labels by logit index; undefined if the version has none. @throws manifest_invalid; as the store */
  loadLabels(context: RequestContext, deadline: Deadline): Promise<readonly string[] | undefined>;
  /** Present if the model returns labels. */
  readonly cascade?: LoadedCascade;
  /** Present if the model returns vectors. */
  readonly encoder?: LoadedEncoder;
}

export interface LoadedCascade {
  readonly manifest: ClassificationManifest;
  readonly task: Task;
  /** Creates the tiers of one request. @param onOutputs receives the raw outputs of each tier */
  createTiers(
    context: RequestContext,
    topK: number,
    onOutputs?: (tier: string, inputs: readonly TaskInput[], outputs: NamedTensors) => void,
  ): CascadeTier[];
  /** Decodes one input. @throws as Task.decodeInput */
  readonly inputFromBytes: (bytes: Uint8Array, index: number) => TaskInput;
  /** Runs the graph of one tier over the inputs. @returns its raw outputs */
  runTier(
    tier: string,
    inputs: readonly TaskInput[],
    context: RequestContext,
    deadline: Deadline,
  ): Promise<NamedTensors>;
}

/** @returns a function that loads versions and caches at most `maxVersions`, evicting the least recently used one */
export function createLoadedModelCache(
  dependencies: LoadedModelDependencies,
  maxVersions: number,
): (resolved: ResolvedVersion) => LoadedEdgeModel {
  const loaded = new Map<string, LoadedEdgeModel>();
  return ({ manifest, digest }) => {
    const version = loaded.get(digest) ?? createLoadedEdgeModel(manifest, dependencies);
    loaded.delete(digest); // reinserted at the end, as most recently used
    loaded.set(digest, version);
    const oldest = loaded.keys().next().value;
    // Eviction only drops the reference, because a request may still use the version.
    if (loaded.size > maxVersions && oldest !== undefined) loaded.delete(oldest);
    return version;
  };
}

function createLoadedEdgeModel(
  manifest: Manifest,
  dependencies: LoadedModelDependencies,
): LoadedEdgeModel {
  const { store, storeTimeoutMs } = dependencies;
  const readArtifact = (ref: ArtifactRef) =>
    store.readArtifact(ref, AbortSignal.timeout(storeTimeoutMs));
  const lazyLabels = (file: ArtifactRef) =>
    createLazy(async () => parseVersionLabels(manifest, await readArtifact(file)));
  if (manifest.task === "tensor") {
    const labels = manifest.labels && lazyLabels(manifest.labels);
    return { loadLabels: async (context, deadline) => labels?.get(context, deadline) };
  }
  if (manifest.task === "embedding")
    return {
      loadLabels: async () => undefined,
      encoder: createLoadedEncoder(manifest, { ...dependencies, readArtifact }),
    };
  const labels = lazyLabels(manifest.labels);
  return {
    loadLabels: labels.get,
    cascade: createLoadedCascade(manifest, labels, readArtifact, dependencies),
  };
}

type ReadArtifact = (ref: ArtifactRef) => Promise<Uint8Array>;
/** Runs of edge tiers in one request, by tier id. */
type PartialRuns = Map<string, PartialRun>;
/** Runs the graph of one tier and returns its raw outputs. Edge tiers record their run in `partialRuns`. */
type TierRunner = (
  inputs: readonly TaskInput[],
  context: RequestContext,
  deadline: Deadline,
  partialRuns: PartialRuns,
) => Promise<NamedTensors>;

function createLoadedCascade(
  manifest: ClassificationManifest,
  labels: Lazy<readonly string[]>,
  readArtifact: ReadArtifact,
  dependencies: LoadedModelDependencies,
): LoadedCascade {
  const task = getTask(manifest.task);
  const { region } = dependencies;
  const runners = new Map(
    manifest.tiers.map((tier) => [
      tier.id,
      tier.place === "edge"
        ? createEdgeRunner(manifest, tier, readArtifact, dependencies)
        : createRegionRunner(manifest, tier, region),
    ]),
  );
  const runTier = (
    tier: string,
    inputs: readonly TaskInput[],
    context: RequestContext,
    deadline: Deadline,
    partialRuns: PartialRuns = new Map(),
  ) => (runners.get(tier) as TierRunner)(inputs, context, deadline, partialRuns);

  return {
    manifest,
    task,
    inputFromBytes: (bytes, index) => task.decodeInput(bytes, index, manifest.input),
    runTier,
    createTiers(context, topK, onOutputs) {
      const partialRuns: PartialRuns = new Map();
      return manifest.tiers.map((tier) => ({
        id: tier.id,
        exit: tier.exit,
        estimateP95Ms: (inputCount) => estimateP95Ms(manifest, tier, region, inputCount),
        isSaturated: () => tier.place === "region" && region?.isSaturated?.() === true,
        predict: (inputs, deadline) =>
          withSpan(context, "tier", tierAttributes(tier, inputs.length), async (inSpan) => {
            const [names, outputs] = await Promise.all([
              labels.get(inSpan, deadline),
              runTier(tier.id, inputs, inSpan, deadline, partialRuns),
            ]);
            onOutputs?.(tier.id, inputs, outputs);
            return decodePredictions(outputs, inputs.length, names, tier.calibration, topK);
          }),
      }));
    },
  };
}

/** Edge tiers use the latency measured at calibration, because a Worker's clock does not advance during computation. */
function estimateP95Ms(
  { model }: ClassificationManifest,
  tier: ClassificationTier,
  region: RegionClient | undefined,
  inputCount: number,
): number | undefined {
  if (tier.place === "edge") return tier.p95Ms && tier.p95Ms * inputCount;
  return region?.latencyQuantileMs?.(0.95, { model, tier: tier.id }) ?? tier.p95Ms;
}

function createEdgeRunner(
  manifest: ClassificationManifest,
  tier: ClassificationTier,
  readArtifact: ReadArtifact,
  { sessions, imageDecoder }: LoadedModelDependencies,
): TierRunner {
  const isResumed = manifest.tiers.some(({ resumes }) => resumes?.tier === tier.id);
  const preprocessor = createLazy<Preprocessor>(async () => {
    const spec = tier.preprocessor;
    return getTask(manifest.task).createPreprocessor(
      "artifact" in spec ? { ...spec, artifact: await readArtifact(spec.artifact) } : spec,
      { imageDecoder },
    );
  });
  return async (inputs, context, deadline, partialRuns) => {
    const { encode } = await preprocessor.get(context, deadline);
    const encoded = encode(inputs);
    const outputs = await sessions.infer(tier, encoded, context, deadline);
    if (isResumed) partialRuns.set(tier.id, { inputs, tensors: { ...encoded, ...outputs } });
    return outputs;
  };
}

function createRegionRunner(
  manifest: ClassificationManifest,
  tier: ClassificationTier,
  region: RegionClient | undefined,
): TierRunner {
  const task = getTask(manifest.task);
  const callRegion = region && createResumableRegionCall(region, tier.resumes);
  return async (inputs, context, deadline, partialRuns) => {
    if (callRegion === undefined) throw regionErrors.regionUnavailable("no region is configured");
    const call = {
      createCall: () => ({ ...createRegionCall(manifest, context, deadline), tier: tier.id }),
      inputs,
      toBytes: (input: TaskInput) => task.encodeInput(input),
      partialRun: tier.resumes && partialRuns.get(tier.resumes.tier),
    };
    return await context.phases.measure("region", () => callRegion(call, deadline.signal));
  };
}
