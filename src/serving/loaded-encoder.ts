// An embedding model in this isolate: texts to vectors, by the edge tier or, where there is none or it cannot be run, the region's.

import { regionErrors } from "../region/errors.ts";
import type { Deadline } from "../cascade/deadline.ts";
import { asEdgeTierError } from "../core/errors.ts";
import type { NamedTensors } from "../core/tensor.ts";
import type { RegionClient } from "../region/region-client.ts";
import type { ArtifactRef, EmbeddingManifest, EmbeddingTier } from "../registry/manifest.ts";
import type { Preprocessor, Task, TaskInput } from "../tasks/task.ts";
import { getTask } from "../tasks/tasks.ts";
import { normalizeVector, poolVectors } from "../tasks/text/embedding-vectors.ts";
import type { InferenceMetrics } from "./inference-metrics.ts";
import type { EdgeSessions } from "./edge-sessions.ts";
import { createLazy } from "./lazy-value.ts";
import { createRegionCall } from "./region-call.ts";
import type { RequestContext } from "./request-context.ts";
import { tierAttributes, withSpan } from "./with-span.ts";

export interface EncodedText {
  readonly input: TaskInput;
  readonly tensors: NamedTensors;
  /** Special tokens included, and without those that were cut off. */
  readonly tokenCount: number;
}

export interface LoadedEncoder {
  readonly manifest: EmbeddingManifest;
  readonly task: Task;
  /** Reads one input from its bytes. @throws as Task.fromBytes */
  readonly inputFromBytes: (bytes: Uint8Array, index: number) => TaskInput;
  /** @throws invalid_tokens, preprocessor_invalid, and as the store */
  encode(
    inputs: readonly TaskInput[],
    context: RequestContext,
    deadline: Deadline,
  ): Promise<EncodedText[]>;
  /**
   * The edge runs texts one at a time: a vector then does not depend on what else was asked, and memory is that of one text.
   * @returns vectors as the manifest has them, and the tier that answered
   * @throws what the tiers throw; deadline_exceeded between two texts where the client named the deadline
   */
  embed(
    texts: readonly EncodedText[],
    context: RequestContext,
    deadline: Deadline,
    counted: Pick<InferenceMetrics, "measureTier">,
  ): Promise<{ readonly tier: string; readonly vectors: readonly Float32Array[] }>;
  /** The graph of the tier with this id over all inputs at once. @returns its raw outputs */
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
  /** Absent where no region is configured. */
  readonly region: RegionClient | undefined;
}

export function createLoadedEncoder(
  manifest: EmbeddingManifest,
  { readArtifact, sessions, region }: LoadedEncoderDependencies,
): LoadedEncoder {
  const task = getTask(manifest.task);
  const edge = manifest.tiers.find(({ place }) => place === "edge");
  const remote = manifest.tiers.find(({ place }) => place === "region");
  const face = (edge ?? remote) as EmbeddingTier; // a manifest has one tier at least

  /** That of the tier which answers by right: tiers of one model are of the same tokens. */
  const preprocessor = createLazy<Preprocessor>(async () => {
    const spec = face.preprocessor;
    return task.createPreprocessor({ ...spec, artifact: await readArtifact(spec.artifact) });
  });

  async function askRegion(
    tier: EmbeddingTier,
    inputs: readonly TaskInput[],
    context: RequestContext,
    deadline: Deadline,
  ): Promise<NamedTensors> {
    if (region === undefined) throw regionErrors.regionUnavailable("no region is configured");
    const request = {
      ...createRegionCall(manifest, context, deadline),
      tier: tier.id,
      inputs: inputs.map((input) => task.encodeInput(input)),
    };
    return await context.phases.measure("region", () => region.infer(request, deadline.signal));
  }

  const vectorsOf = (tier: EmbeddingTier, outputs: NamedTensors, tokens: readonly number[]) => {
    const vectors = poolVectors(outputs, tier, tokens, manifest.dimensions);
    return manifest.normalise ? vectors.map(normalizeVector) : vectors;
  };

  async function embedHere(
    tier: EmbeddingTier,
    texts: readonly EncodedText[],
    context: RequestContext,
    deadline: Deadline,
  ): Promise<Float32Array[]> {
    const vectors: Float32Array[] = [];
    for (const { tensors, tokenCount: tokens } of texts) {
      if (deadline.isStrict) deadline.signal.throwIfAborted();
      vectors.push(
        ...vectorsOf(tier, await sessions.infer(tier, tensors, context, deadline), [tokens]),
      );
    }
    return vectors;
  }

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

    async embed(texts, context, deadline, counted) {
      if (edge !== undefined) {
        try {
          const run = () =>
            withSpan(context, "tier", tierAttributes(edge, texts.length), (inSpan) =>
              embedHere(edge, texts, inSpan, deadline),
            );
          return { tier: edge.id, vectors: await counted.measureTier(edge.id, texts.length, run) };
        } catch (error) {
          if (
            remote === undefined ||
            region === undefined ||
            asEdgeTierError(error).status < 500 ||
            deadline.remainingMs() === 0
          )
            throw error;
        }
      }
      const tier = remote ?? face;
      const run = () =>
        withSpan(context, "tier", tierAttributes(tier, texts.length), (inSpan) =>
          askRegion(
            tier,
            texts.map(({ input }) => input),
            inSpan,
            deadline,
          ),
        );
      const outputs = await counted.measureTier(tier.id, texts.length, run);
      return {
        tier: tier.id,
        vectors: vectorsOf(
          tier,
          outputs,
          texts.map(({ tokenCount: tokens }) => tokens),
        ),
      };
    },

    async runTier(id, inputs, context, deadline) {
      const tier = manifest.tiers.find((one) => one.id === id) ?? face;
      if (tier.place === "region") return await askRegion(tier, inputs, context, deadline);
      const { encode } = await preprocessor.get(context, deadline);
      return await sessions.infer(tier, encode(inputs), context, deadline);
    },
  };
}
