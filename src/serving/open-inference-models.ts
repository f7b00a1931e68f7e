// Open Inference models: presents models to /v2 clients as tensors. The edge answers what it can (edge-plan.ts), and forwards
// other requests to the region.

import type { Deadline } from "../cascade/deadline.ts";
import type { Clock } from "../core/clock.ts";
import { coreErrors } from "../core/common-errors.ts";
import type { TensorSpec } from "../core/tensor.ts";
import { regionErrors } from "../region/errors.ts";
import { type ForwardedRequest, classifyRegionError } from "../region/region-client.ts";
import type { Manifest, TierManifest } from "../registry/manifest.ts";
import type { ModelRef } from "../registry/model-ref.ts";
import { TASK_INPUT_SPECS } from "../tasks/task-inputs.ts";
import type { EdgeMetrics } from "../telemetry/metrics-recorder.ts";
import {
  createEdgePlanner,
  type EdgePlan,
  type TensorRequest,
  type TierSelection,
} from "./edge-plan.ts";
import { createInferenceMetrics } from "./inference-metrics.ts";
import type { LoadedEdgeModel, LoadedModelDependencies } from "./loaded-model.ts";
import type { ModelCatalog, ResolvedVersion } from "./model-catalog.ts";
import { createRegionCall } from "./region-call.ts";
import type { RequestContext } from "./request-context.ts";
import { startRequestDeadline } from "./request-deadline.ts";
import { modelAttributes } from "./with-span.ts";

export interface OpenInferenceModelsOptions {
  readonly catalog: ModelCatalog;
  readonly getLoadedModel: (known: ResolvedVersion) => LoadedEdgeModel;
  readonly tiers: Pick<LoadedModelDependencies, "sessions" | "region">;
  readonly clock: Clock;
  /** Maximum number of task inputs per request. */
  readonly maxInputs: number;
  readonly metrics: EdgeMetrics;
}

export interface OpenInferenceModels {
  /** Resolves the reference itself, without canaries. @throws as ModelCatalog.resolve */
  resolve(ref: ModelRef, context: RequestContext): Promise<OpenInferenceModel>;
  /** Resolves the version that serves this request. @throws as ModelCatalog.resolveForRequest */
  resolveForRequest(ref: ModelRef, context: RequestContext): Promise<OpenInferenceModel>;
}

export interface OpenInferenceModel {
  readonly manifest: Manifest;
  /** Inputs in the client's view: task inputs if the model has a task, otherwise the graph's tensors. */
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Whether the edge, or otherwise the region, can answer. */
  isReady(): Promise<boolean>;
  /** Labels by index, for the classification extension. @throws as LoadedEdgeModel.loadLabels */
  loadLabels(context: RequestContext, deadline: Deadline): Promise<readonly string[] | undefined>;
  /** @param deadlineMs strict deadline set by the client; undefined for the manifest's default */
  startDeadline(deadlineMs: number | undefined, context: RequestContext): Deadline;
  /** @returns undefined if the region must answer @throws no_such_tier, invalid_tensor, too_many_inputs; input errors of the task */
  plan(request: TensorRequest): EdgePlan | undefined;
  /** Forwards the request unchanged. @throws region_unavailable, region_refused, deadline_exceeded */
  forward(
    message: Pick<ForwardedRequest, "body" | "headers">,
    context: RequestContext,
    deadline: Deadline,
  ): Promise<Response>;
}

export function createOpenInferenceModels(
  options: OpenInferenceModelsOptions,
): OpenInferenceModels {
  const { catalog, getLoadedModel } = options;
  const loadModel = async (context: RequestContext, resolve: () => Promise<ResolvedVersion>) => {
    const resolved = await context.phases.measure("manifest", resolve);
    context.span.setAttributes(modelAttributes(resolved.manifest));
    return createOpenInferenceModel(resolved.manifest, getLoadedModel(resolved), options);
  };
  return {
    resolve: (ref, context) => loadModel(context, () => catalog.resolve(ref, context)),
    resolveForRequest: (ref, context) =>
      loadModel(context, () => catalog.resolveForRequest(ref, context)),
  };
}

function createOpenInferenceModel(
  manifest: Manifest,
  loadedModel: LoadedEdgeModel,
  { tiers, clock, maxInputs, metrics }: OpenInferenceModelsOptions,
): OpenInferenceModel {
  const { model, version } = manifest;
  const { sessions, region } = tiers;
  const inferenceMetrics = createInferenceMetrics(metrics, manifest);
  const tierSelection = selectTiers(
    manifest,
    (tier) => sessions.tierStatusOf(tier).status !== "unsupported",
  );
  const { outputs, plan } = createEdgePlanner({
    manifest,
    loadedModel,
    tierSelection,
    sessions,
    hasRegion: region !== undefined,
    maxInputs,
    metrics: inferenceMetrics,
  });

  return {
    manifest,
    inputs:
      (loadedModel.cascade ?? loadedModel.encoder) === undefined
        ? tierSelection.primary.inputs
        : TASK_INPUT_SPECS,
    outputs,
    plan,
    loadLabels: loadedModel.loadLabels,
    isReady: async () =>
      tierSelection.runnable.length > 0 ||
      (tierSelection.region !== undefined && (await region?.isModelReady(model, version)) === true),
    startDeadline: (deadlineMs, context) =>
      startRequestDeadline(clock, manifest, deadlineMs, context),

    async forward(message, context, deadline) {
      if (region === undefined) throw regionErrors.regionUnavailable("no region is configured");
      const call = { ...message, ...createRegionCall({ model, version }, context, deadline) };
      try {
        const tier = tierSelection.region?.id ?? tierSelection.primary.id; // the response need not name the tier
        const response = await inferenceMetrics.measureTier(tier, 1, () =>
          context.phases.measure("region", () => region.forward(call, deadline.signal)),
        );
        if (response.ok) inferenceMetrics.recordAnswers([{ tier }]);
        return response;
      } catch (error) {
        // The call's timer may fire shortly before the clock reaches the deadline.
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
  return { edge, runnable, region, primary: runnable[0] ?? region ?? (edge[0] as TierManifest) }; // a manifest has at least one tier
}
