// One version of a model in this isolate: its labels and, where its task has inputs of its own, a tier for each tier of
// its manifest.

import { regionErrors } from "../region/errors.ts";
import { decodePredictions } from "../cascade/calibration.ts";
import type { CascadeTier } from "../cascade/cascade.ts";
import type { Deadline } from "../cascade/deadline.ts";
import type { NamedTensors } from "../core/tensor.ts";
import type { RegionClient } from "../region/region-client.ts";
import type {
  ArtifactRef,
  ClassificationManifest,
  ClassificationTier,
  Manifest,
} from "../registry/manifest.ts";
import type { ModelStore } from "../registry/model-store.ts";
import { parseVersionLabels } from "../tasks/labels.ts";
import type { ImageDecoder } from "../tasks/image/image.ts";
import type { Preprocessor, Task, TaskInput } from "../tasks/task.ts";
import { getTask } from "../tasks/tasks.ts";
import { type PartialRun, createResumableRegionCall } from "./partial-run.ts";
import type { ResolvedVersion } from "./model-catalog.ts";
import type { EdgeSessions } from "./edge-sessions.ts";
import { createLazy, type Lazy } from "./lazy-value.ts";
import { createRegionCall } from "./region-call.ts";
import type { RequestContext } from "./request-context.ts";
import { createLoadedEncoder, type LoadedEncoder } from "./loaded-encoder.ts";
import { tierAttributes, withSpan } from "./with-span.ts";

export interface LoadedModelDependencies {
  readonly store: ModelStore;
  readonly sessions: EdgeSessions;
  /** Absent where no region is configured: region tiers then fail with region_unavailable. */
  readonly region: RegionClient | undefined;
  /** Absent where this deployment's edge tiers take none. */
  readonly imageDecoder?: ImageDecoder | undefined;
  /** For loading one artifact. */
  readonly storeTimeoutMs: number;
}

export interface LoadedEdgeModel {
  /** By index of the logits; undefined where the version names none. @throws manifest_invalid, and as the store */
  loadLabels(context: RequestContext, deadline: Deadline): Promise<readonly string[] | undefined>;
  /** Of a model that gives labels. */
  readonly cascade?: LoadedCascade;
  /** Of a model that gives vectors. */
  readonly encoder?: LoadedEncoder;
}

export interface LoadedCascade {
  readonly manifest: ClassificationManifest;
  readonly task: Task;
  /** For one request. @param onOutputs is told what a tier's graph gave, before it is read */
  createTiers(
    context: RequestContext,
    topK: number,
    onOutputs?: (tier: string, inputs: readonly TaskInput[], outputs: NamedTensors) => void,
  ): CascadeTier[];
  /** Reads one input from its bytes. @throws as Task.fromBytes */
  readonly inputFromBytes: (bytes: Uint8Array, index: number) => TaskInput;
  /** The graph of the tier with this id over the inputs. @returns its raw outputs */
  runTier(
    tier: string,
    inputs: readonly TaskInput[],
    context: RequestContext,
    deadline: Deadline,
  ): Promise<NamedTensors>;
}

/** @returns what makes and keeps versions: at most `maxVersions`, the one unused for longest is let go */
export function createLoadedModelCache(
  dependencies: LoadedModelDependencies,
  maxVersions: number,
): (known: ResolvedVersion) => LoadedEdgeModel {
  const served = new Map<string, LoadedEdgeModel>();
  return ({ manifest, digest }) => {
    const version = served.get(digest) ?? createLoadedEdgeModel(manifest, dependencies);
    served.delete(digest); // to the end: most recently used
    served.set(digest, version);
    const oldest = served.keys().next().value;
    // Only forgotten, not disposed: a request may still be using it, and its memory goes with the last reference.
    if (served.size > maxVersions && oldest !== undefined) served.delete(oldest);
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
/** Edge tiers' runs of one request, by the tiers' ids. */
type PartialRuns = Map<string, PartialRun>;
/** Runs the graph of one tier over inputs and gives its raw outputs, wherever the graph is. An edge tier adds to `begun`. */
type TierRunner = (
  inputs: readonly TaskInput[],
  context: RequestContext,
  deadline: Deadline,
  begun: PartialRuns,
) => Promise<NamedTensors>;

function createLoadedCascade(
  manifest: ClassificationManifest,
  labels: Lazy<readonly string[]>,
  readArtifact: ReadArtifact,
  { sessions, region, imageDecoder: images }: LoadedModelDependencies,
): LoadedCascade {
  const task = getTask(manifest.task);
  const graphs = new Map(
    manifest.tiers.map((tier) => [
      tier.id,
      tier.place === "edge" ? edgeGraph(tier) : regionGraph(tier),
    ]),
  );

  function edgeGraph(tier: ClassificationTier): TierRunner {
    const isResumed = manifest.tiers.some(({ resumes }) => resumes?.tier === tier.id);
    const preprocessor = createLazy<Preprocessor>(async () => {
      const spec = tier.preprocessor;
      return task.createPreprocessor(
        "artifact" in spec ? { ...spec, artifact: await readArtifact(spec.artifact) } : spec,
        { imageDecoder: images },
      );
    });
    return async (inputs, context, deadline, begun) => {
      const { encode } = await preprocessor.get(context, deadline);
      const encoded = encode(inputs);
      const outputs = await sessions.infer(tier, encoded, context, deadline);
      if (isResumed) begun.set(tier.id, { inputs, tensors: { ...encoded, ...outputs } });
      return outputs;
    };
  }

  function regionGraph(tier: ClassificationTier): TierRunner {
    const ask = region && createResumableRegionCall(region, tier.resumes);
    return async (inputs, context, deadline, begun) => {
      if (ask === undefined) throw regionErrors.regionUnavailable("no region is configured");
      const createCall = () => ({
        ...createRegionCall(manifest, context, deadline),
        tier: tier.id,
      });
      const run = {
        createCall,
        inputs,
        toBytes: (input: TaskInput) => task.encodeInput(input),
        partialRun: tier.resumes && begun.get(tier.resumes.tier),
      };
      return await context.phases.measure("region", () => ask(run, deadline.signal));
    };
  }

  const run = (
    tier: string,
    inputs: readonly TaskInput[],
    context: RequestContext,
    deadline: Deadline,
    begun: PartialRuns = new Map(),
  ) => (graphs.get(tier) as TierRunner)(inputs, context, deadline, begun);

  return {
    manifest,
    task,
    inputFromBytes: (bytes, index) => task.decodeInput(bytes, index, manifest.input),
    runTier: run,
    createTiers(context, topK, onOutputs) {
      const begun: PartialRuns = new Map();
      return manifest.tiers.map((tier) => ({
        id: tier.id,
        exit: tier.exit,
        // At the edge no clock goes on while it computes: what was measured when the model was calibrated has to do.
        estimateP95Ms: (count) =>
          tier.place === "edge"
            ? tier.p95Ms && tier.p95Ms * count
            : (region?.latencyQuantileMs?.(0.95, { model: manifest.model, tier: tier.id }) ??
              tier.p95Ms),
        isSaturated: () => tier.place === "region" && region?.isSaturated?.() === true,
        async predict(inputs, deadline) {
          return await withSpan(
            context,
            "tier",
            tierAttributes(tier, inputs.length),
            async (inSpan) => {
              const [names, outputs] = await Promise.all([
                labels.get(inSpan, deadline),
                run(tier.id, inputs, inSpan, deadline, begun),
              ]);
              onOutputs?.(tier.id, inputs, outputs);
              return decodePredictions(outputs, inputs.length, names, tier.calibration, topK);
            },
          );
        },
      }));
    },
  };
}
