// One prediction from parsed request to outcomes: resolve the version, look in the caches, run the cascade, store.

import { taskErrors } from "../tasks/errors.ts";
import { servingErrors } from "./errors.ts";
import { coreErrors } from "../core/common-errors.ts";
import * as z from "zod";
import { createResultCache, createJsonCodec } from "../cache/result-cache.ts";
import { formatCacheKey } from "../cache/cache-key.ts";
import {
  type CacheLayer,
  type CacheMode,
  type CacheStatus,
  isStorable,
} from "../cache/cache-policy.ts";
import {
  checkMaxTier,
  type CascadeOutcome,
  runCascade,
  type TierUsage,
} from "../cascade/cascade.ts";
import type { Clock } from "../core/clock.ts";
import type { ModelRef } from "../registry/model-ref.ts";
import type { InputLimits, Task, TaskInput } from "../tasks/task.ts";
import type { EdgeMetrics } from "../telemetry/metrics-recorder.ts";
import { createInferenceMetrics } from "./inference-metrics.ts";
import { readThrough } from "./read-through.ts";
import type { ModelCatalog, ResolvedVersion } from "./model-catalog.ts";
import type { DriftCheck } from "./drift-check.ts";
import type { LoadedEdgeModel } from "./loaded-model.ts";
import type { RequestContext } from "./request-context.ts";
import { startRequestDeadline } from "./request-deadline.ts";
import { modelAttributes, markSpanDegraded } from "./with-span.ts";

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
  readonly cacheMode: CacheMode;
  /** As the client named it; the manifest's otherwise. */
  readonly deadlineMs: number | undefined;
  /** Whether the client has the answers to these keys already. They are then neither looked up nor computed. */
  readonly isNotModified?: (keys: readonly string[]) => Promise<boolean>;
}

export interface Prediction {
  readonly model: string;
  readonly version: number;
  /** As of SelectedVersion. */
  readonly isCanarySplit: boolean;
  /** Empty where the client holds them. */
  readonly outcomes: readonly CascadeOutcome[];
  readonly tierUsage: readonly TierUsage[];
  /** Absent where no cache was asked, since the client holds the answers. */
  readonly cacheResult?: CacheStatus;
  /** Of the tenant, the version and all inputs: equal requests have equal keys. */
  readonly cacheKeys: readonly string[];
}

export interface Predictor {
  /** @throws every 4xx and 5xx error that DESIGN's predict route knows */
  predict(request: PredictRequest, context: RequestContext): Promise<Prediction>;
}

export interface PredictorOptions {
  readonly catalog: ModelCatalog;
  readonly getLoadedModel: (known: ResolvedVersion) => LoadedEdgeModel;
  readonly clock: Clock;
  /** In the order in which they are asked. */
  readonly cacheLayers: readonly CacheLayer[];
  readonly maxInputs: number;
  readonly metrics: EdgeMetrics;
  /** Left out, nothing is checked. */
  readonly driftCheck?: DriftCheck | undefined;
}

const cachedOutcomeSchema = z.object({
  label: z.string(),
  confidence: z.number(),
  outOfScope: z.boolean(),
  ranking: z.array(z.object({ label: z.string(), score: z.number() })),
  tier: z.string(),
  degraded: z.literal(false),
});

export function createPredictor(options: PredictorOptions): Predictor {
  const { catalog: catalogue, getLoadedModel: versions, clock, maxInputs } = options;
  const cache = createResultCache(
    options.cacheLayers,
    createJsonCodec<CascadeOutcome>((value) => cachedOutcomeSchema.safeParse(value).data),
  );

  return {
    async predict(request, context) {
      if ("length" in request.inputs && request.inputs.length > maxInputs)
        throw taskErrors.tooManyInputs(request.inputs.length, maxInputs);
      const known = await context.phases.measure("manifest", () =>
        catalogue.resolveForRequest(request.ref, context),
      );
      context.span.setAttributes(modelAttributes(known.manifest));
      const { cascade: served, encoder } = versions(known);
      if (served === undefined)
        throw encoder === undefined
          ? servingErrors.takesTensors(known.manifest.model)
          : servingErrors.givesEmbeddings(known.manifest.model);
      const { manifest, task, createTiers: tiers } = served;
      const inputs = parseInputs(request.inputs, task, manifest.input);
      const cascade = tiers(context, request.topK);
      checkMaxTier(manifest.model, cascade, request.maxTier);

      const { model, version } = manifest;
      const counted = createInferenceMetrics(options.metrics, manifest);
      const parameters = [request.topK, request.maxTier ?? ""];
      const identity = {
        tenant: context.tenant,
        model,
        version,
        manifestDigest: known.digest,
        parameters,
      };
      const cacheKeys = await Promise.all(
        inputs.map(async (input) =>
          formatCacheKey({ ...identity, input: await task.computeIdentity(input) }),
        ),
      );
      const base = { model, version, isCanarySplit: known.isCanarySplit, cacheKeys };
      if (await request.isNotModified?.(cacheKeys)) {
        counted.recordCacheResult("held");
        return { ...base, outcomes: [], tierUsage: [] };
      }

      let uses: readonly TierUsage[] = [];
      const answers = await readThrough<CascadeOutcome>(cache, {
        keys: cacheKeys,
        cacheMode: request.cacheMode,
        context,
        isStorable,
        async compute(missing) {
          const asked = missing.map((index) => inputs[index] as TaskInput);
          const deadline = startRequestDeadline(clock, manifest, request.deadlineMs, context);
          try {
            const result = await runCascade(
              cascade,
              asked,
              deadline,
              request.maxTier,
              counted.recordTierUsage,
            );
            counted.recordAnswers(result.outcomes);
            if (request.maxTier === undefined && deadline.error === undefined) {
              const answered = asked.map((input, row) => ({
                input,
                outcome: result.outcomes[row] as CascadeOutcome,
              }));
              options.driftCheck?.sampleRequest(
                {
                  model,
                  version,
                  deadlineMs: manifest.deadlineMs,
                  tiers: cascade,
                  answers: answered,
                },
                context,
              );
            }
            uses = result.tierUsage;
            if (result.outcomes.some(({ degraded }) => degraded)) markSpanDegraded(context);
            return result.outcomes;
          } finally {
            deadline.dispose();
          }
        },
      });
      counted.recordCacheResult(answers.cacheResult);
      return {
        ...base,
        outcomes: answers.values,
        tierUsage: uses,
        cacheResult: answers.cacheResult,
      };
    },
  };
}

/** @throws unsupported_media_type, and as Task.parseInput and Task.fromBytes */
function parseInputs(
  inputs: PredictRequest["inputs"],
  task: Task,
  limits: InputLimits,
): TaskInput[] {
  if (!("mediaType" in inputs))
    return inputs.map((raw, index) => task.parseInput(raw, index, limits));
  const { mediaType, bytes } = inputs;
  if (!task.mediaTypes.includes(mediaType))
    throw coreErrors.unsupportedMediaType(mediaType, ["application/json", ...task.mediaTypes]);
  return [task.decodeInput(bytes, 0, limits)];
}
