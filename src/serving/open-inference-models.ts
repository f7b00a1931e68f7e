// Models as clients of the Open Inference Protocol meet them: their tensors, what this edge answers (edge-plan.ts), and the
// region for the rest.

import { regionErrors } from "../region/errors.ts";
import { coreErrors } from "../core/common-errors.ts";
import type { Deadline } from "../cascade/deadline.ts";
import type { Clock } from "../core/clock.ts";
import type { TensorSpec } from "../core/tensor.ts";
import { type ForwardedRequest, classifyRegionError } from "../region/region-client.ts";
import type { Manifest, TierManifest } from "../registry/manifest.ts";
import type { ModelRef } from "../registry/model-ref.ts";
import { TASK_INPUT_SPECS } from "../tasks/task-inputs.ts";
import type { EdgeMetrics } from "../telemetry/metrics-recorder.ts";
import { createInferenceMetrics } from "./inference-metrics.ts";
import type { ModelCatalog, ResolvedVersion } from "./model-catalog.ts";
import {
  createEdgePlanner,
  type EdgePlan,
  type TensorRequest,
  type TierSelection,
} from "./edge-plan.ts";
import { createRegionCall } from "./region-call.ts";
import type { RequestContext } from "./request-context.ts";
import { startRequestDeadline } from "./request-deadline.ts";
import type { LoadedEdgeModel, LoadedModelDependencies } from "./loaded-model.ts";
import { modelAttributes } from "./with-span.ts";

export interface OpenInferenceModelsOptions {
  readonly catalog: ModelCatalog;
  readonly getLoadedModel: (known: ResolvedVersion) => LoadedEdgeModel;
  readonly tiers: Pick<LoadedModelDependencies, "sessions" | "region">;
  readonly clock: Clock;
  /** Of a task's own inputs in one request. */
  readonly maxInputs: number;
  readonly metrics: EdgeMetrics;
}

export interface OpenInferenceModels {
  /** What the reference names. @throws as ModelCatalog.resolve */
  resolve(ref: ModelRef, context: RequestContext): Promise<OpenInferenceModel>;
  /** What answers this request. @throws as ModelCatalog.resolveForRequest */
  resolveForRequest(ref: ModelRef, context: RequestContext): Promise<OpenInferenceModel>;
}

export interface OpenInferenceModel {
  readonly manifest: Manifest;
  /** As a client sees the model. */
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Whether this edge, or else the region, answers at once. */
  isReady(): Promise<boolean>;
  /** By index, for classification. @throws as LoadedEdgeModel.loadLabels */
  loadLabels(context: RequestContext, deadline: Deadline): Promise<readonly string[] | undefined>;
  /** @param deadlineMs as the client named it, which is then strict; the manifest's otherwise */
  startDeadline(deadlineMs: number | undefined, context: RequestContext): Deadline;
  /** @returns undefined where the region has to answer @throws no_such_tier, invalid_tensor, too_many_inputs, and what the task refuses */
  plan(request: TensorRequest): EdgePlan | undefined;
  /** The region's answer to the request as it came. @throws region_unavailable, region_refused, deadline_exceeded */
  forward(
    message: Pick<ForwardedRequest, "body" | "headers">,
    context: RequestContext,
    deadline: Deadline,
  ): Promise<Response>;
}

export function createOpenInferenceModels(
  options: OpenInferenceModelsOptions,
): OpenInferenceModels {
  const { catalog: catalogue, getLoadedModel: versions } = options;
  const model = async (context: RequestContext, known: () => Promise<ResolvedVersion>) => {
    const version = await context.phases.measure("manifest", known);
    context.span.setAttributes(modelAttributes(version.manifest));
    return createOpenInferenceModel(version.manifest, versions(version), options);
  };
  return {
    resolve: (ref, context) => model(context, () => catalogue.resolve(ref, context)),
    resolveForRequest: (ref, context) =>
      model(context, () => catalogue.resolveForRequest(ref, context)),
  };
}

function createOpenInferenceModel(
  manifest: Manifest,
  served: LoadedEdgeModel,
  { tiers, clock, maxInputs, metrics }: OpenInferenceModelsOptions,
): OpenInferenceModel {
  const { model, version } = manifest;
  const { sessions, region } = tiers;
  const counted = createInferenceMetrics(metrics, manifest);
  const choice = selectTiers(manifest, (tier) => sessions.tierStatusOf(tier).how !== "not");
  const { outputs, plan } = createEdgePlanner({
    manifest,
    loadedModel: served,
    tierSelection: choice,
    sessions,
    hasRegion: region !== undefined,
    maxInputs,
    metrics: counted,
  });

  return {
    manifest,
    inputs:
      (served.cascade ?? served.encoder) === undefined ? choice.primary.inputs : TASK_INPUT_SPECS,
    outputs,
    plan,
    loadLabels: served.loadLabels,
    isReady: async () =>
      choice.runnable.length > 0 ||
      (choice.region !== undefined && (await region?.isModelReady(model, version)) === true),
    startDeadline: (deadlineMs, context) =>
      startRequestDeadline(clock, manifest, deadlineMs, context),

    async forward(message, context, deadline) {
      if (region === undefined) throw regionErrors.regionUnavailable("no region is configured");
      const call = { ...message, ...createRegionCall({ model, version }, context, deadline) };
      try {
        const tier = choice.region?.id ?? choice.primary.id; // which one it was, the region's answer need not say
        const answer = await counted.measureTier(tier, 1, () =>
          context.phases.measure("region", () => region.forward(call, deadline.signal)),
        );
        if (answer.ok) counted.recordAnswers([{ tier }]);
        return answer;
      } catch (error) {
        // Of the timers that end together, the call's may come a moment before the clock says so.
        const isLate =
          deadline.remainingMs() === 0 ||
          (classifyRegionError(error) === "timed_out" && !deadline.isClientDisconnected);
        throw isLate ? coreErrors.deadlineExceeded(deadline.budgetMs) : error;
      }
    },
  };
}

function selectTiers(
  manifest: Manifest,
  isRunnable: (tier: TierManifest) => boolean,
): TierSelection {
  const edge = manifest.tiers.filter(({ place }) => place === "edge");
  const runnable = edge.filter(isRunnable);
  const region = manifest.tiers.findLast(({ place }) => place === "region");
  return { edge, runnable, region, primary: runnable[0] ?? region ?? (edge[0] as TierManifest) }; // a manifest has one tier at least
}
