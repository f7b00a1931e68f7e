// One prediction from parsed request to outcomes: resolve the version, look in the caches, run the cascade, store.

import * as z from "zod";
import { type AnswerCache, type CacheLayer, type CacheMode, createAnswerCache } from "../cache/answer-cache.ts";
import type { CacheStore } from "../cache/cache-store.ts";
import { cacheKey } from "../cache/key.ts";
import { checkMaxTier, type Outcome, runCascade, type TierUse } from "../cascade/cascade.ts";
import type { Clock } from "../core/clock.ts";
import { errors } from "../core/errors.ts";
import type { ModelRef } from "../registry/model-ref.ts";
import type { InputLimits, Task, TaskInput } from "../tasks/task.ts";
import type { Catalogue, KnownVersion } from "./catalogue.ts";
import type { DriftCheck } from "./drift-check.ts";
import type { ServedVersion } from "./served-version.ts";
import type { RequestContext } from "./request-context.ts";
import { startRequestDeadline } from "./request-deadline.ts";

/** A body that is one input, in the form that its media type says. */
export interface RawInput {
  readonly mediaType: string;
  readonly bytes: Uint8Array;
}

export interface PredictRequest {
  readonly ref: ModelRef;
  /** Not yet parsed by the task. */
  readonly inputs: readonly unknown[] | RawInput;
  readonly topK: number;
  readonly maxTier: string | undefined;
  readonly cache: CacheMode;
  /** As the client named it; the manifest's otherwise. */
  readonly deadlineMs: number | undefined;
}

export interface Prediction {
  readonly model: string;
  readonly version: number;
  readonly outcomes: readonly Outcome[];
  readonly uses: readonly TierUse[];
  readonly cacheLayer: CacheLayer;
  /** Of the version and all inputs: equal requests have equal keys. */
  readonly keys: readonly string[];
}

export interface Predictor {
  /** @throws every 4xx and 5xx error that DESIGN's predict route knows */
  predict(request: PredictRequest, context: RequestContext): Promise<Prediction>;
}

export interface PredictorOptions {
  readonly catalogue: Catalogue;
  readonly versions: (known: KnownVersion) => ServedVersion;
  readonly clock: Clock;
  readonly l1: CacheStore;
  readonly l2: CacheStore | undefined;
  readonly cacheTtlSeconds: number;
  readonly maxInputs: number;
  /** Left out, nothing is checked. */
  readonly drift?: DriftCheck | undefined;
}

const storedOutcome = z.object({
  label: z.string(),
  confidence: z.number(),
  outOfScope: z.boolean(),
  ranking: z.array(z.object({ label: z.string(), score: z.number() })),
  tier: z.string(),
  degraded: z.literal(false),
});

export function createPredictor(options: PredictorOptions): Predictor {
  const { catalogue, versions, clock, maxInputs } = options;
  const cache: AnswerCache<Outcome> = createAnswerCache(
    { l1: options.l1, l2: options.l2, ttlSeconds: options.cacheTtlSeconds },
    (value) => storedOutcome.safeParse(value).data,
  );

  return {
    async predict(request, context) {
      if ("length" in request.inputs && request.inputs.length > maxInputs) throw errors.tooManyInputs(request.inputs.length, maxInputs);
      const known = await context.phases.measure("manifest", () => catalogue.choose(request.ref, context));
      const { cascade: served, encoder } = versions(known);
      if (served === undefined) throw encoder === undefined ? errors.takesTensors(known.manifest.model) : errors.givesEmbeddings(known.manifest.model);
      const { manifest, task, tiers } = served;
      const inputs = parseInputs(request.inputs, task, manifest.input);
      const cascade = tiers(context, request.topK);
      checkMaxTier(manifest.model, cascade, request.maxTier);

      const identity = { model: manifest.model, version: manifest.version, manifestDigest: known.digest, parameters: { topK: request.topK, maxTier: request.maxTier } };
      const keys = await Promise.all(inputs.map(async (input) => cacheKey({ ...identity, input: await task.identityOf(input) })));
      const cached = await context.phases.measure("cache", () => cache.read(keys, request.cache));
      const base = { model: manifest.model, version: manifest.version, keys, cacheLayer: cached.layer };
      const missing = keys.flatMap((_, index) => (cached.values[index] === undefined ? [index] : []));
      if (missing.length === 0) return { ...base, outcomes: cached.values as Outcome[], uses: [] };

      const deadline = startRequestDeadline(clock, manifest, request.deadlineMs, context);
      try {
        const result = await runCascade(cascade, missing.map((index) => inputs[index] as (typeof inputs)[number]), deadline, request.maxTier);
        const computed = missing.map((index, row) => ({ key: keys[index] as string, value: result.outcomes[row] as Outcome }));
        context.waitUntil(cache.write(computed.filter(({ value }) => !value.degraded), request.cache));
        if (request.maxTier === undefined && !deadline.signal.aborted) {
          const answers = missing.map((index, row) => ({ input: inputs[index] as TaskInput, outcome: result.outcomes[row] as Outcome }));
          options.drift?.consider({ model: manifest.model, version: manifest.version, deadlineMs: manifest.deadlineMs, tiers: cascade, answers }, context);
        }
        const outcomes = keys.map((_, index) => cached.values[index] ?? (result.outcomes[missing.indexOf(index)] as Outcome));
        return { ...base, outcomes, uses: result.uses };
      } finally {
        deadline.end();
      }
    },
  };
}

/** @throws unsupported_media_type, and as Task.parseInput and Task.fromBytes */
function parseInputs(inputs: PredictRequest["inputs"], task: Task, limits: InputLimits): TaskInput[] {
  if (!("mediaType" in inputs)) return inputs.map((raw, index) => task.parseInput(raw, index, limits));
  const { mediaType, bytes } = inputs;
  if (!task.mediaTypes.includes(mediaType)) throw errors.unsupportedMediaType(mediaType, ["application/json", ...task.mediaTypes]);
  return [task.fromBytes(bytes, 0, limits)];
}
