// Loaded encoder: converts texts to vectors with the edge tier, or with the region tier if the edge tier is absent or fails.

import type { Deadline } from "../cascade/deadline.ts";
import { asEdgeTierError } from "../core/errors.ts";
import type { NamedTensors } from "../core/tensor.ts";
import { regionErrors } from "../region/errors.ts";
import type { RegionClient } from "../region/region-client.ts";
import type { ArtifactRef, EmbeddingManifest, EmbeddingTier } from "../registry/manifest.ts";
import type { Preprocessor, Task, TaskInput } from "../tasks/task.ts";
import { getTask } from "../tasks/tasks.ts";
import { normalizeVector, poolVectors } from "../tasks/text/embedding-vectors.ts";
import type { EdgeSessions } from "./edge-sessions.ts";
import type { InferenceMetrics } from "./inference-metrics.ts";
import { createLazy } from "./lazy-value.ts";
import { createRegionCall } from "./region-call.ts";
import type { RequestContext } from "./request-context.ts";
import { tierAttributes, withSpan } from "./with-span.ts";

export interface EncodedText {
  readonly input: TaskInput;
  readonly tensors: NamedTensors;
  /** Includes special tokens, excludes truncated ones. */
  readonly tokenCount: number;
}

export interface LoadedEncoder {
  readonly manifest: EmbeddingManifest;
  readonly task: Task;
  /** Decodes one input. @throws as Task.decodeInput */
  readonly inputFromBytes: (bytes: Uint8Array, index: number) => TaskInput;
  /** @throws invalid_tokens, preprocessor_invalid; as the store */
  encode(
    inputs: readonly TaskInput[],
    context: RequestContext,
    deadline: Deadline,
  ): Promise<EncodedText[]>;
  /**
   * The edge runs one text at a time. A vector therefore does not depend on the other texts, and memory is that of one text.
   * @returns vectors with the manifest's dimensions, and the tier that answered
   * @throws the tiers' errors; deadline_exceeded between two texts if the deadline is strict
   */
  embed(
    texts: readonly EncodedText[],
    context: RequestContext,
    deadline: Deadline,
    metrics: Pick<InferenceMetrics, "measureTier">,
  ): Promise<{ readonly tier: string; readonly vectors: readonly Float32Array[] }>;
  /** Runs the graph of one tier over all inputs at once. @returns its raw outputs */
  runTier(
    tier: string,
    inputs: readonly TaskInput[],
    context: RequestContext,
    deadline: Deadline,
  ): Promise<NamedTensors>;
}

export interface LoadedEncoderDependencies {
  readonly readArtifact: (ref: ArtifactRef) => Promise<Uint8Array>;
  readonly sessions: Pick<EdgeSessions, "infer">;
  /** Absent if no region is configured. */
  readonly region: RegionClient | undefined;
}

export function createLoadedEncoder(
  manifest: EmbeddingManifest,
  dependencies: LoadedEncoderDependencies,
): LoadedEncoder {
  const { readArtifact, sessions, region } = dependencies;
  const task = getTask(manifest.task);
  const edgeTier = manifest.tiers.find(({ place }) => place === "edge");
  const regionTier = manifest.tiers.find(({ place }) => place === "region");
  const primaryTier = (edgeTier ?? regionTier) as EmbeddingTier; // a manifest has at least one tier
  const embedAtEdge = createEdgeEmbedding(manifest, sessions);
  const callRegion = createRegionEmbeddingCall(manifest, task, region);

  /** All tiers of a model share their tokens, so the primary tier's preprocessor serves them all. */
  const preprocessor = createLazy<Preprocessor>(async () => {
    const spec = primaryTier.preprocessor;
    return task.createPreprocessor({ ...spec, artifact: await readArtifact(spec.artifact) });
  });

  return {
    manifest,
    task,
    inputFromBytes: (bytes, index) => task.decodeInput(bytes, index, manifest.input),

    async encode(inputs, context, deadline) {
      const { encode } = await preprocessor.get(context, deadline);
      return inputs.map((input) => {
        const tensors = encode([input]);
        return { input, tensors, tokenCount: tensors["input_ids"]?.shape[1] ?? 0 };
      });
    },

    async embed(texts, context, deadline, metrics) {
      const runInSpan = <Result>(
        tier: EmbeddingTier,
        run: (inSpan: RequestContext) => Promise<Result>,
      ) =>
        metrics.measureTier(tier.id, texts.length, () =>
          withSpan(context, "tier", tierAttributes(tier, texts.length), run),
        );

      if (edgeTier !== undefined) {
        try {
          const vectors = await runInSpan(edgeTier, (inSpan) =>
            embedAtEdge(edgeTier, texts, inSpan, deadline),
          );
          return { tier: edgeTier.id, vectors };
        } catch (error) {
          const hasFallback = regionTier !== undefined && region !== undefined;
          if (!hasFallback || asEdgeTierError(error).status < 500 || deadline.remainingMs() === 0)
            throw error;
        }
      }
      const tier = regionTier ?? primaryTier;
      const inputs = texts.map(({ input }) => input);
      const outputs = await runInSpan(tier, (inSpan) => callRegion(tier, inputs, inSpan, deadline));
      const tokenCounts = texts.map(({ tokenCount }) => tokenCount);
      return { tier: tier.id, vectors: toVectors(manifest, tier, outputs, tokenCounts) };
    },

    async runTier(id, inputs, context, deadline) {
      const tier = manifest.tiers.find((candidate) => candidate.id === id) ?? primaryTier;
      if (tier.place === "region") return await callRegion(tier, inputs, context, deadline);
      const { encode } = await preprocessor.get(context, deadline);
      return await sessions.infer(tier, encode(inputs), context, deadline);
    },
  };
}

function toVectors(
  manifest: EmbeddingManifest,
  tier: EmbeddingTier,
  outputs: NamedTensors,
  tokenCounts: readonly number[],
): Float32Array[] {
  const vectors = poolVectors(outputs, tier, tokenCounts, manifest.dimensions);
  return manifest.normalize ? vectors.map(normalizeVector) : vectors;
}

const createEdgeEmbedding =
  (manifest: EmbeddingManifest, sessions: Pick<EdgeSessions, "infer">) =>
  async (
    tier: EmbeddingTier,
    texts: readonly EncodedText[],
    context: RequestContext,
    deadline: Deadline,
  ): Promise<Float32Array[]> => {
    const vectors: Float32Array[] = [];
    for (const { tensors, tokenCount } of texts) {
      if (deadline.isStrict) deadline.signal.throwIfAborted();
      const outputs = await sessions.infer(tier, tensors, context, deadline);
      vectors.push(...toVectors(manifest, tier, outputs, [tokenCount]));
    }
    return vectors;
  };

const createRegionEmbeddingCall =
  (manifest: EmbeddingManifest, task: Task, region: RegionClient | undefined) =>
  async (
    tier: EmbeddingTier,
    inputs: readonly TaskInput[],
    context: RequestContext,
    deadline: Deadline,
  ): Promise<NamedTensors> => {
    if (region === undefined) throw regionErrors.regionUnavailable("no region is configured");
    const request = {
      ...createRegionCall(manifest, context, deadline),
      tier: tier.id,
      inputs: inputs.map((input) => task.encodeInput(input)),
    };
    return await context.phases.measure("region", () => region.infer(request, deadline.signal));
  };
