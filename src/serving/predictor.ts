// Predictor: turns a parsed request into outcomes. It resolves the version, reads the caches, runs the cascade and stores results.

import * as z from "zod";
import { formatCacheKey } from "../cache/cache-key.ts";
import {
  type CacheLayer,
  type CacheMode,
  type CacheStatus,
  isStorable,
} from "../cache/cache-policy.ts";
import { createResultCache, createJsonCodec } from "../cache/result-cache.ts";
import {
  checkMaxTier,
  type CascadeOutcome,
  type CascadeResult,
  type CascadeTier,
  runCascade,
  type TierUsage,
} from "../cascade/cascade.ts";
import type { Clock } from "../core/clock.ts";
import { coreErrors } from "../core/common-errors.ts";
import type { ModelRef } from "../registry/model-ref.ts";
import { taskErrors } from "../tasks/errors.ts";
import type { InputLimits, Task, TaskInput } from "../tasks/task.ts";
import type { EdgeMetrics } from "../telemetry/metrics-recorder.ts";
import type { DriftCheck } from "./drift-check.ts";
import { servingErrors } from "./errors.ts";
import { createInferenceMetrics, type InferenceMetrics } from "./inference-metrics.ts";
import type { LoadedCascade, LoadedEdgeModel } from "./loaded-model.ts";
import type { ModelCatalog, ResolvedVersion } from "./model-catalog.ts";
import { readThrough } from "./read-through.ts";
import type { RequestContext } from "./request-context.ts";
import { startRequestDeadline } from "./request-deadline.ts";
import { modelAttributes, markSpanDegraded } from "./with-span.ts";

/** Request body that is one input, encoded by its media type. */
export interface RawInput {
  readonly mediaType: string;
  readonly bytes: Uint8Array;
}

export interface PredictRequest {
  readonly ref: ModelRef;
  /** Inputs that the task has not parsed yet. */
  readonly inputs: readonly unknown[] | RawInput;
  readonly topK: number;
  readonly maxTier: string | undefined;
  readonly cacheMode: CacheMode;
  /** Strict deadline set by the client; undefined for the manifest's default. */
  readonly deadlineMs: number | undefined;
  /** Whether the client already has the response for these keys; then nothing is looked up or computed. */
  readonly isNotModified?: (keys: readonly string[]) => Promise<boolean>;
}

export interface Prediction {
  readonly model: string;
  readonly version: number;
  /** See SelectedVersion. */
  readonly isCanarySplit: boolean;
  /** Empty if the client already has them. */
  readonly outcomes: readonly CascadeOutcome[];
  readonly tierUsage: readonly TierUsage[];
  /** Absent if the client already has the response, so that no cache was read. */
  readonly cacheResult?: CacheStatus;
  /** One key per input, over the tenant, the version and the parameters. Equal requests have equal keys. */
  readonly cacheKeys: readonly string[];
}

export interface Predictor {
  /** @throws every 4xx and 5xx error that the OpenAPI document lists for the predict route */
  predict(request: PredictRequest, context: RequestContext): Promise<Prediction>;
}

export interface PredictorOptions {
  readonly catalog: ModelCatalog;
  readonly getLoadedModel: (resolved: ResolvedVersion) => LoadedEdgeModel;
  readonly clock: Clock;
  /** In lookup order. */
  readonly cacheLayers: readonly CacheLayer[];
  readonly maxInputs: number;
  readonly metrics: EdgeMetrics;
  /** Absent turns drift checks off. */
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
  const { maxInputs } = options;
  const cache = createResultCache(
    options.cacheLayers,
    createJsonCodec<CascadeOutcome>((value) => cachedOutcomeSchema.safeParse(value).data),
  );

  return {
    async predict(request, context) {
      if ("length" in request.inputs && request.inputs.length > maxInputs)
        throw taskErrors.tooManyInputs(request.inputs.length, maxInputs);
      const { cascade, digest, isCanarySplit } = await resolveCascade(
        options,
        request.ref,
        context,
      );
      const { manifest, task } = cascade;
      const { model, version } = manifest;
      const inputs = parseInputs(request.inputs, task, manifest.input);
      const tiers = cascade.createTiers(context, request.topK);
      checkMaxTier(model, tiers, request.maxTier);

      const metrics = createInferenceMetrics(options.metrics, manifest);
      const cacheKeys = await computeCacheKeys(cascade, digest, inputs, request, context.tenant);
      const prediction = { model, version, isCanarySplit, cacheKeys };
      if (await request.isNotModified?.(cacheKeys)) {
        metrics.recordCacheResult("held");
        return { ...prediction, outcomes: [], tierUsage: [] };
      }

      let tierUsage: readonly TierUsage[] = [];
      const { values: outcomes, cacheResult } = await readThrough<CascadeOutcome>(cache, {
        keys: cacheKeys,
        cacheMode: request.cacheMode,
        context,
        isStorable,
        async compute(missing) {
          const missingInputs = missing.map((index) => inputs[index] as TaskInput);
          const run = { manifest, tiers, inputs: missingInputs, request, metrics };
          const result = await runRequestCascade(options, run, context);
          tierUsage = result.tierUsage;
          return result.outcomes;
        },
      });
      metrics.recordCacheResult(cacheResult);
      return { ...prediction, outcomes, tierUsage, cacheResult };
    },
  };
}

/** @throws takes_tensors, gives_embeddings; as ModelCatalog.resolveForRequest */
async function resolveCascade(
  { catalog, getLoadedModel }: PredictorOptions,
  ref: ModelRef,
  context: RequestContext,
): Promise<{
  readonly cascade: LoadedCascade;
  readonly digest: string;
  readonly isCanarySplit: boolean;
}> {
  const selected = await context.phases.measure("manifest", () =>
    catalog.resolveForRequest(ref, context),
  );
  const { manifest, digest, isCanarySplit } = selected;
  context.span.setAttributes(modelAttributes(manifest));
  const { cascade, encoder } = getLoadedModel(selected);
  if (cascade !== undefined) return { cascade, digest, isCanarySplit };
  throw encoder === undefined
    ? servingErrors.takesTensors(manifest.model)
    : servingErrors.givesEmbeddings(manifest.model);
}

async function computeCacheKeys(
  { manifest: { model, version }, task }: LoadedCascade,
  manifestDigest: string,
  inputs: readonly TaskInput[],
  { topK, maxTier }: PredictRequest,
  tenant: string,
): Promise<string[]> {
  const identity = { tenant, model, version, manifestDigest, parameters: [topK, maxTier ?? ""] };
  return await Promise.all(
    inputs.map(async (input) =>
      formatCacheKey({ ...identity, input: await task.computeIdentity(input) }),
    ),
  );
}

interface RequestCascadeRun {
  readonly manifest: LoadedCascade["manifest"];
  readonly tiers: readonly CascadeTier[];
  readonly inputs: readonly TaskInput[];
  readonly request: PredictRequest;
  readonly metrics: InferenceMetrics;
}

/** Runs the cascade within the request's deadline, and samples the result for the drift check. */
async function runRequestCascade(
  { clock, driftCheck }: PredictorOptions,
  { manifest, tiers, inputs, request: { deadlineMs, maxTier }, metrics }: RequestCascadeRun,
  context: RequestContext,
): Promise<CascadeResult> {
  const { model, version } = manifest;
  const deadline = startRequestDeadline(clock, manifest, deadlineMs, context);
  try {
    const result = await runCascade(tiers, inputs, deadline, maxTier, metrics.recordTierUsage);
    const { outcomes } = result;
    metrics.recordAnswers(outcomes);
    if (maxTier === undefined && deadline.error === undefined) {
      const answers = inputs.map((input, row) => ({
        input,
        outcome: outcomes[row] as CascadeOutcome,
      }));
      const answered = { model, version, deadlineMs: manifest.deadlineMs, tiers, answers };
      driftCheck?.sampleRequest(answered, context);
    }
    if (outcomes.some(({ degraded }) => degraded)) markSpanDegraded(context);
    return result;
  } finally {
    deadline.dispose();
  }
}

/** @throws unsupported_media_type; as Task.parseInput and Task.decodeInput */
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
