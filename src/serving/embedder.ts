// Embeddings from parsed request to vectors: resolve the version, look in the caches, run the encoder, store.

import { servingErrors } from "./errors.ts";
import { taskErrors } from "../tasks/errors.ts";
import { createAnswerCache } from "../cache/answer-cache.ts";
import { cacheKey } from "../cache/key.ts";
import type { CacheLayer, CacheMode, CacheResult } from "../cache/policy.ts";
import type { Clock } from "../core/clock.ts";
import type { ModelRef } from "../registry/model-ref.ts";
import { shortened } from "../tasks/text/vectors.ts";
import type { EdgeMetrics } from "../telemetry/recorder.ts";
import { type AnswerMetrics, createAnswerMetrics } from "./answer-metrics.ts";
import { answersOf } from "./answers.ts";
import type { Catalogue, KnownVersion } from "./catalogue.ts";
import { type Embedding, embeddingCodec } from "./embedding-codec.ts";
import type { RequestContext } from "./request-context.ts";
import { startRequestDeadline } from "./request-deadline.ts";
import type { EncodedText, ServedEncoder } from "./served-encoder.ts";
import type { ServedVersion } from "./served-version.ts";
import { modelFacts } from "./traced.ts";

export interface EmbedRequest {
  readonly ref: ModelRef;
  /** Texts, or arrays of token ids; not yet parsed by the task. */
  readonly inputs: readonly unknown[];
  /** Of each vector; the model's otherwise. */
  readonly dimensions: number | undefined;
  readonly cache: CacheMode;
  /** As the client named it; the manifest's otherwise. */
  readonly deadlineMs: number | undefined;
}

export interface Embeddings {
  readonly model: string;
  readonly version: number;
  /** In the order of the inputs. */
  readonly vectors: readonly Float32Array[];
  /** That the graph read, or had read where the vector comes from a cache. */
  readonly tokens: number;
  /** Ids of the tiers whose vectors they are. */
  readonly tiers: readonly string[];
  readonly cacheResult: CacheResult;
}

export interface Embedder {
  /**
   * @throws gives_no_embeddings, invalid_dimensions, too_many_inputs, too_many_tokens, invalid_tokens; as Task.parseInput, Catalogue.resolve
   * and the tiers
   */
  embed(request: EmbedRequest, context: RequestContext): Promise<Embeddings>;
}

export interface EmbedderOptions {
  readonly catalogue: Pick<Catalogue, "resolve">;
  readonly versions: (known: KnownVersion) => ServedVersion;
  readonly clock: Clock;
  /** In the order in which they are asked. */
  readonly cacheLayers: readonly CacheLayer[];
  /** Of one request. */
  readonly maxInputs: number;
  readonly maxTokens: number;
  readonly metrics: EdgeMetrics;
}

export function createEmbedder(options: EmbedderOptions): Embedder {
  const { catalogue, versions, clock, maxInputs, maxTokens } = options;
  const cache = createAnswerCache(options.cacheLayers, embeddingCodec);

  /** @param known tokens of the request's other inputs */
  async function compute(
    encoder: ServedEncoder,
    inputs: Parameters<ServedEncoder["encode"]>[0],
    known: number,
    deadlineMs: number | undefined,
    context: RequestContext,
    counted: AnswerMetrics,
  ): Promise<Embedding[]> {
    const { manifest } = encoder;
    const deadline = startRequestDeadline(clock, manifest, deadlineMs, context);
    try {
      const texts = await encoder.encode(inputs, context, deadline);
      const tokens = known + sumOf(texts);
      if (tokens > maxTokens) throw servingErrors.tooManyTokens(tokens, maxTokens);
      const { tier, vectors } = await encoder.embed(texts, context, deadline, counted);
      counted.answered(texts.map(() => ({ tier })));
      return texts.map((text, row) => ({
        vector: vectors[row] ?? new Float32Array(),
        tokens: text.tokens,
        tier,
      }));
    } finally {
      deadline.end();
    }
  }

  return {
    async embed({ ref, inputs: raw, dimensions, cache: mode, deadlineMs }, context) {
      if (raw.length > maxInputs) throw taskErrors.tooManyInputs(raw.length, maxInputs);
      // No canary takes a share of these: vectors of two versions cannot be compared, and who asks for some keeps them.
      const known = await context.phases.measure("manifest", () => catalogue.resolve(ref, context));
      context.span.set(modelFacts(known.manifest));
      const { encoder } = versions(known);
      const { model, version, task: taskName } = known.manifest;
      if (encoder === undefined) throw servingErrors.givesNoEmbeddings(model, taskName);
      const { manifest, task } = encoder;
      if (dimensions !== undefined && dimensions > manifest.dimensions)
        throw servingErrors.invalidDimensions(dimensions, manifest.dimensions);
      const inputs = raw.map((one, index) => task.parseInput(one, index, manifest.input));

      const counted = createAnswerMetrics(options.metrics, manifest);
      const identity = {
        tenant: context.tenant,
        model,
        version,
        manifestDigest: known.digest,
        parameters: [],
      };
      const keys = await Promise.all(
        inputs.map(async (input) => cacheKey({ ...identity, input: await task.identityOf(input) })),
      );
      const { values: all, result: cacheResult } = await answersOf(cache, {
        keys,
        mode,
        context,
        isUsable: ({ vector }) => vector.length === manifest.dimensions,
        compute: (missing, found) =>
          compute(
            encoder,
            missing.map((index) => inputs[index] as (typeof inputs)[number]),
            sumOf(found),
            deadlineMs,
            context,
            counted,
          ),
      });
      counted.cached(cacheResult);
      const vectors = all.map(({ vector }) =>
        shortened(vector, dimensions ?? manifest.dimensions, manifest.normalise),
      );
      return {
        model,
        version,
        vectors,
        tokens: sumOf(all),
        tiers: [...new Set(all.map(({ tier }) => tier))],
        cacheResult,
      };
    },
  };
}

const sumOf = (texts: readonly Pick<EncodedText, "tokens">[]): number =>
  texts.reduce((sum, { tokens }) => sum + tokens, 0);
