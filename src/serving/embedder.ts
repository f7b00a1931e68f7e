// Embeddings from parsed request to vectors: resolve the version, look in the caches, run the encoder, store.

import { servingErrors } from "./errors.ts";
import { taskErrors } from "../tasks/errors.ts";
import { createResultCache } from "../cache/result-cache.ts";
import { formatCacheKey } from "../cache/cache-key.ts";
import type { CacheLayer, CacheMode, CacheStatus } from "../cache/cache-policy.ts";
import type { Clock } from "../core/clock.ts";
import type { ModelRef } from "../registry/model-ref.ts";
import { truncateVector } from "../tasks/text/embedding-vectors.ts";
import type { EdgeMetrics } from "../telemetry/metrics-recorder.ts";
import { type InferenceMetrics, createInferenceMetrics } from "./inference-metrics.ts";
import { readThrough } from "./read-through.ts";
import type { ModelCatalog, ResolvedVersion } from "./model-catalog.ts";
import { type Embedding, embeddingCodec } from "./embedding-codec.ts";
import type { RequestContext } from "./request-context.ts";
import { startRequestDeadline } from "./request-deadline.ts";
import type { EncodedText, LoadedEncoder } from "./loaded-encoder.ts";
import type { LoadedEdgeModel } from "./loaded-model.ts";
import { modelAttributes } from "./with-span.ts";

export interface EmbedRequest {
  readonly ref: ModelRef;
  /** Texts, or arrays of token ids; not yet parsed by the task. */
  readonly inputs: readonly unknown[];
  /** Of each vector; the model's otherwise. */
  readonly dimensions: number | undefined;
  readonly cacheMode: CacheMode;
  /** As the client named it; the manifest's otherwise. */
  readonly deadlineMs: number | undefined;
}

export interface EmbedResult {
  readonly model: string;
  readonly version: number;
  /** In the order of the inputs. */
  readonly vectors: readonly Float32Array[];
  /** That the graph read, or had read where the vector comes from a cache. */
  readonly tokenCount: number;
  /** Ids of the tiers whose vectors they are. */
  readonly tiers: readonly string[];
  readonly cacheResult: CacheStatus;
}

export interface Embedder {
  /**
   * @throws gives_no_embeddings, invalid_dimensions, too_many_inputs, too_many_tokens, invalid_tokens; as Task.parseInput, ModelCatalog.resolve
   * and the tiers
   */
  embed(request: EmbedRequest, context: RequestContext): Promise<EmbedResult>;
}

export interface EmbedderOptions {
  readonly catalog: Pick<ModelCatalog, "resolve">;
  readonly getLoadedModel: (known: ResolvedVersion) => LoadedEdgeModel;
  readonly clock: Clock;
  /** In the order in which they are asked. */
  readonly cacheLayers: readonly CacheLayer[];
  /** Of one request. */
  readonly maxInputs: number;
  readonly maxTokens: number;
  readonly metrics: EdgeMetrics;
}

export function createEmbedder(options: EmbedderOptions): Embedder {
  const { catalog: catalogue, getLoadedModel: versions, clock, maxInputs, maxTokens } = options;
  const cache = createResultCache(options.cacheLayers, embeddingCodec);

  /** @param known tokens of the request's other inputs */
  async function compute(
    encoder: LoadedEncoder,
    inputs: Parameters<LoadedEncoder["encode"]>[0],
    known: number,
    deadlineMs: number | undefined,
    context: RequestContext,
    counted: InferenceMetrics,
  ): Promise<Embedding[]> {
    const { manifest } = encoder;
    const deadline = startRequestDeadline(clock, manifest, deadlineMs, context);
    try {
      const texts = await encoder.encode(inputs, context, deadline);
      const tokens = known + sumTokenCounts(texts);
      if (tokens > maxTokens) throw servingErrors.tooManyTokens(tokens, maxTokens);
      const { tier, vectors } = await encoder.embed(texts, context, deadline, counted);
      counted.recordAnswers(texts.map(() => ({ tier })));
      return texts.map((text, row) => ({
        vector: vectors[row] ?? new Float32Array(),
        tokenCount: text.tokenCount,
        tier,
      }));
    } finally {
      deadline.dispose();
    }
  }

  return {
    async embed({ ref, inputs: raw, dimensions, cacheMode: mode, deadlineMs }, context) {
      if (raw.length > maxInputs) throw taskErrors.tooManyInputs(raw.length, maxInputs);
      // No canary takes a share of these: vectors of two versions cannot be compared, and who asks for some keeps them.
      const known = await context.phases.measure("manifest", () => catalogue.resolve(ref, context));
      context.span.setAttributes(modelAttributes(known.manifest));
      const { encoder } = versions(known);
      const { model, version, task: taskName } = known.manifest;
      if (encoder === undefined) throw servingErrors.givesNoEmbeddings(model, taskName);
      const { manifest, task } = encoder;
      if (dimensions !== undefined && dimensions > manifest.dimensions)
        throw servingErrors.invalidDimensions(dimensions, manifest.dimensions);
      const inputs = raw.map((one, index) => task.parseInput(one, index, manifest.input));

      const counted = createInferenceMetrics(options.metrics, manifest);
      const identity = {
        tenant: context.tenant,
        model,
        version,
        manifestDigest: known.digest,
        parameters: [],
      };
      const keys = await Promise.all(
        inputs.map(async (input) =>
          formatCacheKey({ ...identity, input: await task.computeIdentity(input) }),
        ),
      );
      const { values: all, cacheResult } = await readThrough(cache, {
        keys,
        cacheMode: mode,
        context,
        isUsable: ({ vector }) => vector.length === manifest.dimensions,
        compute: (missing, found) =>
          compute(
            encoder,
            missing.map((index) => inputs[index] as (typeof inputs)[number]),
            sumTokenCounts(found),
            deadlineMs,
            context,
            counted,
          ),
      });
      counted.recordCacheResult(cacheResult);
      const vectors = all.map(({ vector }) =>
        truncateVector(vector, dimensions ?? manifest.dimensions, manifest.normalise),
      );
      return {
        model,
        version,
        vectors,
        tokenCount: sumTokenCounts(all),
        tiers: [...new Set(all.map(({ tier }) => tier))],
        cacheResult,
      };
    },
  };
}

const sumTokenCounts = (texts: readonly Pick<EncodedText, "tokenCount">[]): number =>
  texts.reduce((sum, { tokenCount: tokens }) => sum + tokens, 0);
