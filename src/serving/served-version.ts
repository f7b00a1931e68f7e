// One version of a model in this isolate: its labels, and a tier for each tier of its manifest.

import { readAnswers } from "../cascade/calibration.ts";
import type { Tier } from "../cascade/cascade.ts";
import type { Deadline } from "../cascade/deadline.ts";
import { errors } from "../core/errors.ts";
import type { NamedTensors } from "../core/tensor.ts";
import type { RegionClient } from "../region/region-client.ts";
import type { ArtifactRef, ClassificationManifest, ClassificationTier } from "../registry/manifest.ts";
import type { ModelStore } from "../registry/model-store.ts";
import { labelsOf } from "../tasks/labels.ts";
import type { Preprocessor, Task, TaskInput } from "../tasks/task.ts";
import type { EdgeSessions } from "./edge-sessions.ts";
import { createLazy } from "./lazy.ts";
import type { RequestContext } from "./request-context.ts";

export interface TierDependencies {
  readonly store: ModelStore;
  readonly sessions: EdgeSessions;
  /** Absent where no region is configured: region tiers then fail with region_unavailable. */
  readonly region: RegionClient | undefined;
  /** For loading one artifact. */
  readonly storeTimeoutMs: number;
}

export interface ServedVersion {
  readonly manifest: ClassificationManifest;
  readonly task: Task;
  /** The cascade's tiers for one request. */
  tiers(context: RequestContext, topK: number): Tier[];
}

/** Runs the graph of one tier over inputs and gives its raw outputs, wherever the graph is. */
type RunGraph = (inputs: readonly TaskInput[], context: RequestContext, deadline: Deadline) => Promise<NamedTensors>;

export function createServedVersion(manifest: ClassificationManifest, task: Task, dependencies: TierDependencies): ServedVersion {
  const { store, storeTimeoutMs } = dependencies;
  const artifact = (ref: ArtifactRef) => store.readArtifact(ref, AbortSignal.timeout(storeTimeoutMs));
  const labels = createLazy(async () => labelsOf(manifest, await artifact(manifest.labels)));
  const graphs = manifest.tiers.map((tier): RunGraph => (tier.place === "edge" ? edgeGraph(tier) : regionGraph(tier)));

  function edgeGraph(tier: ClassificationTier): RunGraph {
    const preprocessor = createLazy<Preprocessor>(async () => task.createPreprocessor({ ...tier.preprocessor, artifact: await artifact(tier.preprocessor.artifact) }));
    return async (inputs, context, deadline) => {
      const { encode } = await preprocessor.get(context, deadline);
      return await dependencies.sessions.run(tier, encode(inputs), context, deadline);
    };
  }

  function regionGraph(tier: ClassificationTier): RunGraph {
    return async (inputs, context, deadline) => {
      if (dependencies.region === undefined) throw errors.regionUnavailable("no region is configured");
      const request = {
        model: manifest.model,
        version: manifest.version,
        tier: tier.id,
        inputs: inputs.map((input) => task.toBytes(input)),
        requestId: context.requestId,
        timeoutMs: deadline.remainingMs(),
        ...(context.traceparent === undefined ? {} : { traceparent: context.traceparent }),
      };
      const { region } = dependencies;
      return await context.phases.measure("region", () => region.infer(request, deadline.signal));
    };
  }

  return {
    manifest,
    task,
    tiers: (context, topK) =>
      manifest.tiers.map((tier, position) => ({
        id: tier.id,
        exit: tier.exit,
        async run(inputs, deadline) {
          const runGraph = graphs[position] as RunGraph;
          const [names, outputs] = await Promise.all([labels.get(context, deadline), runGraph(inputs, context, deadline)]);
          return readAnswers(outputs, inputs.length, names, tier.calibration, topK);
        },
      })),
  };
}
