// Embedder: turns a parsed request into vectors. It resolves the version, reads the caches, runs the encoder and stores results.

import { formatCacheKey } from "../cache/cache-key.ts";
import type { CacheLayer, CacheMode, CacheStatus } from "../cache/cache-policy.ts";
import { createResultCache } from "../cache/result-cache.ts";
import type { Clock } from "../core/clock.ts";
import type { ModelRef } from "../registry/model-ref.ts";
import { taskErrors } from "../tasks/errors.ts";
import type { TaskInput } from "../tasks/task.ts";
import { truncateVector } from "../tasks/text/embedding-vectors.ts";
import type { EdgeMetrics } from "../telemetry/metrics-recorder.ts";
import { type Embedding, embeddingCodec } from "./embedding-codec.ts";
import { servingErrors } from "./errors.ts";
import { type InferenceMetrics, createInferenceMetrics } from "./inference-metrics.ts";
import type { EncodedText, LoadedEncoder } from "./loaded-encoder.ts";
import type { LoadedEdgeModel } from "./loaded-model.ts";
import type { ModelCatalog, ResolvedVersion } from "./model-catalog.ts";
import { readThrough } from "./read-through.ts";
import type { RequestContext } from "./request-context.ts";
import { startRequestDeadline } from "./request-deadline.ts";
import { modelAttributes } from "./with-span.ts";

export interface EmbedRequest {
  readonly ref: ModelRef;
  /** Texts or arrays of token ids, not yet parsed by the task. */
  readonly inputs: readonly unknown[];
  /** Requested vector length; undefined for the model's own. */
  readonly dimensions: number | undefined;
  readonly cacheMode: CacheMode;
  /** Strict deadline set by the client; undefined for the manifest's default. */
  readonly deadlineMs: number | undefined;
}

export interface EmbedResult {
  readonly model: string;
  readonly version: number;
  /** One vector per input, in order. */
  readonly vectors: readonly Float32Array[];
  /** Number of tokens over all inputs, including inputs whose vector comes from a cache. */
  readonly tokenCount: number;
  /** Ids of the tiers that produced the vectors. */
  readonly tiers: readonly string[];
  readonly cacheResult: CacheStatus;
}

export interface Embedder {
  /**
   * @throws gives_no_embeddings, invalid_dimensions, too_many_inputs, too_many_tokens, invalid_tokens; as Task.parseInput,
   * ModelCatalog.resolve and the tiers
   */
  embed(request: EmbedRequest, context: RequestContext): Promise<EmbedResult>;
}

export interface EmbedderOptions {
  readonly catalog: Pick<ModelCatalog, "resolve">;
  readonly getLoadedModel: (resolved: ResolvedVersion) => LoadedEdgeModel;
  readonly clock: Clock;
  /** In lookup order. */
  readonly cacheLayers: readonly CacheLayer[];
  /** Maximum number of inputs per request. */
  readonly maxInputs: number;
  readonly maxTokens: number;
  readonly metrics: EdgeMetrics;
}

export function createEmbedder(options: EmbedderOptions): Embedder {
  const { maxInputs } = options;
  const cache = createResultCache(options.cacheLayers, embeddingCodec);
  const compute = createCompute(options);

  return {
    async embed(request, context) {
      const { dimensions, cacheMode } = request;
      if (request.inputs.length > maxInputs)
        throw taskErrors.tooManyInputs(request.inputs.length, maxInputs);
      const { encoder, digest } = await resolveEncoder(options, request.ref, context);
      const { manifest, task } = encoder;
      const { model, version } = manifest;
      if (dimensions !== undefined && dimensions > manifest.dimensions)
        throw servingErrors.invalidDimensions(dimensions, manifest.dimensions);
      const inputs = request.inputs.map((raw, index) =>
        task.parseInput(raw, index, manifest.input),
      );

      const metrics = createInferenceMetrics(options.metrics, manifest);
      const { values: embeddings, cacheResult } = await readThrough(cache, {
        keys: await computeCacheKeys(encoder, digest, inputs, context.tenant),
        cacheMode,
        context,
        isUsable: ({ vector }) => vector.length === manifest.dimensions,
        compute: (missing, found) =>
          compute(
            {
              encoder,
              inputs: missing.map((index) => inputs[index] as TaskInput),
              cachedTokenCount: sumTokenCounts(found),
              deadlineMs: request.deadlineMs,
              metrics,
            },
            context,
          ),
      });
      metrics.recordCacheResult(cacheResult);
      const vectors = embeddings.map(({ vector }) =>
        truncateVector(vector, dimensions ?? manifest.dimensions, manifest.normalize),
      );
      return {
        model,
        version,
        vectors,
        tokenCount: sumTokenCounts(embeddings),
        tiers: [...new Set(embeddings.map(({ tier }) => tier))],
        cacheResult,
      };
    },
  };
}

/**
 * Canaries serve no share of embeddings, because vectors of two versions cannot be compared and clients store them.
 * @throws gives_no_embeddings; as ModelCatalog.resolve
 */
async function resolveEncoder(
  { catalog, getLoadedModel }: EmbedderOptions,
  ref: ModelRef,
  context: RequestContext,
): Promise<{ readonly encoder: LoadedEncoder; readonly digest: string }> {
  const resolved = await context.phases.measure("manifest", () => catalog.resolve(ref, context));
  const { manifest, digest } = resolved;
  context.span.setAttributes(modelAttributes(manifest));
  const { encoder } = getLoadedModel(resolved);
  if (encoder === undefined) throw servingErrors.givesNoEmbeddings(manifest.model, manifest.task);
  return { encoder, digest };
}

async function computeCacheKeys(
  { manifest: { model, version }, task }: LoadedEncoder,
  manifestDigest: string,
  inputs: readonly TaskInput[],
  tenant: string,
): Promise<string[]> {
  const identity = { tenant, model, version, manifestDigest, parameters: [] };
  return await Promise.all(
    inputs.map(async (input) =>
      formatCacheKey({ ...identity, input: await task.computeIdentity(input) }),
    ),
  );
}

interface EmbeddingComputation {
  readonly encoder: LoadedEncoder;
  /** Inputs that are not cached. */
  readonly inputs: readonly TaskInput[];
  /** Tokens of the request's cached inputs, which count against the limit. */
  readonly cachedTokenCount: number;
  readonly deadlineMs: number | undefined;
  readonly metrics: InferenceMetrics;
}

const createCompute =
  ({ clock, maxTokens }: Pick<EmbedderOptions, "clock" | "maxTokens">) =>
  async (
    { encoder, inputs, cachedTokenCount, deadlineMs, metrics }: EmbeddingComputation,
    context: RequestContext,
  ): Promise<Embedding[]> => {
    const deadline = startRequestDeadline(clock, encoder.manifest, deadlineMs, context);
    try {
      const texts = await encoder.encode(inputs, context, deadline);
      const tokenCount = cachedTokenCount + sumTokenCounts(texts);
      if (tokenCount > maxTokens) throw servingErrors.tooManyTokens(tokenCount, maxTokens);
      const { tier, vectors } = await encoder.embed(texts, context, deadline, metrics);
      metrics.recordAnswers(texts.map(() => ({ tier })));
      return texts.map((text, row) => ({
        vector: vectors[row] ?? new Float32Array(),
        tokenCount: text.tokenCount,
        tier,
      }));
    } finally {
      deadline.dispose();
    }
  };

const sumTokenCounts = (texts: readonly Pick<EncodedText, "tokenCount">[]): number =>
  texts.reduce((sum, { tokenCount }) => sum + tokenCount, 0);
