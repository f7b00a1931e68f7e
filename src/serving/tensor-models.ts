// Models as clients of the Open Inference Protocol meet them: their tensors, what this edge answers (edge-plan.ts), and the
// region for the rest.

import { regionErrors } from "../region/errors.ts";
import { coreErrors } from "../core/common-errors.ts";
import type { Deadline } from "../cascade/deadline.ts";
import type { Clock } from "../core/clock.ts";
import type { TensorSpec } from "../core/tensor.ts";
import { type ForwardedRequest, regionFailureOf } from "../region/region-client.ts";
import type { Manifest, TierManifest } from "../registry/manifest.ts";
import type { ModelRef } from "../registry/model-ref.ts";
import { TASK_INPUTS } from "../tasks/task-rows.ts";
import type { EdgeMetrics } from "../telemetry/recorder.ts";
import { createAnswerMetrics } from "./answer-metrics.ts";
import type { Catalogue, KnownVersion } from "./catalogue.ts";
import {
  createEdgePlanner,
  type EdgeRun,
  type TensorRequest,
  type TierChoice,
} from "./edge-plan.ts";
import { regionCallOf } from "./region-call.ts";
import type { RequestContext } from "./request-context.ts";
import { startRequestDeadline } from "./request-deadline.ts";
import type { ServedVersion, TierDependencies } from "./served-version.ts";
import { modelFacts } from "./traced.ts";

export interface TensorModelsOptions {
  readonly catalogue: Catalogue;
  readonly versions: (known: KnownVersion) => ServedVersion;
  readonly tiers: Pick<TierDependencies, "sessions" | "region">;
  readonly clock: Clock;
  /** Of a task's own inputs in one request. */
  readonly maxInputs: number;
  readonly metrics: EdgeMetrics;
}

export interface TensorModels {
  /** What the reference names. @throws as Catalogue.resolve */
  find(ref: ModelRef, context: RequestContext): Promise<TensorModel>;
  /** What answers this request. @throws as Catalogue.choose */
  choose(ref: ModelRef, context: RequestContext): Promise<TensorModel>;
}

export interface TensorModel {
  readonly manifest: Manifest;
  /** As a client sees the model. */
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Whether this edge, or else the region, answers at once. */
  isReady(): Promise<boolean>;
  /** By index, for classification. @throws as ServedVersion.labels */
  labels(context: RequestContext, deadline: Deadline): Promise<readonly string[] | undefined>;
  /** @param deadlineMs as the client named it, which is then strict; the manifest's otherwise */
  startDeadline(deadlineMs: number | undefined, context: RequestContext): Deadline;
  /** @returns undefined where the region has to answer @throws no_such_tier, invalid_tensor, too_many_inputs, and what the task refuses */
  plan(request: TensorRequest): EdgeRun | undefined;
  /** The region's answer to the request as it came. @throws region_unavailable, region_refused, deadline_exceeded */
  forward(
    message: Pick<ForwardedRequest, "body" | "headers">,
    context: RequestContext,
    deadline: Deadline,
  ): Promise<Response>;
}

export function createTensorModels(options: TensorModelsOptions): TensorModels {
  const { catalogue, versions } = options;
  const model = async (context: RequestContext, known: () => Promise<KnownVersion>) => {
    const version = await context.phases.measure("manifest", known);
    context.span.set(modelFacts(version.manifest));
    return createTensorModel(version.manifest, versions(version), options);
  };
  return {
    find: (ref, context) => model(context, () => catalogue.resolve(ref, context)),
    choose: (ref, context) => model(context, () => catalogue.choose(ref, context)),
  };
}

function createTensorModel(
  manifest: Manifest,
  served: ServedVersion,
  { tiers, clock, maxInputs, metrics }: TensorModelsOptions,
): TensorModel {
  const { model, version } = manifest;
  const { sessions, region } = tiers;
  const counted = createAnswerMetrics(metrics, manifest);
  const choice = chooseTiers(manifest, (tier) => sessions.servingOf(tier).how !== "not");
  const { outputs, plan } = createEdgePlanner({
    manifest,
    served,
    choice,
    sessions,
    hasRegion: region !== undefined,
    maxInputs,
    counted,
  });

  return {
    manifest,
    inputs: (served.cascade ?? served.encoder) === undefined ? choice.face.inputs : TASK_INPUTS,
    outputs,
    plan,
    labels: served.labels,
    isReady: async () =>
      choice.runnable.length > 0 ||
      (choice.region !== undefined && (await region?.modelReady(model, version)) === true),
    startDeadline: (deadlineMs, context) =>
      startRequestDeadline(clock, manifest, deadlineMs, context),

    async forward(message, context, deadline) {
      if (region === undefined) throw regionErrors.regionUnavailable("no region is configured");
      const call = { ...message, ...regionCallOf({ model, version }, context, deadline) };
      try {
        const tier = choice.region?.id ?? choice.face.id; // which one it was, the region's answer need not say
        const answer = await counted.tier(tier, 1, () =>
          context.phases.measure("region", () => region.forward(call, deadline.signal)),
        );
        if (answer.ok) counted.answered([{ tier }]);
        return answer;
      } catch (error) {
        // Of the timers that end together, the call's may come a moment before the clock says so.
        const isLate =
          deadline.remainingMs() === 0 ||
          (regionFailureOf(error) === "timed_out" && !deadline.isAbandoned);
        throw isLate ? coreErrors.deadlineExceeded(deadline.budgetMs) : error;
      }
    },
  };
}

function chooseTiers(manifest: Manifest, isRunnable: (tier: TierManifest) => boolean): TierChoice {
  const edge = manifest.tiers.filter(({ place }) => place === "edge");
  const runnable = edge.filter(isRunnable);
  const region = manifest.tiers.findLast(({ place }) => place === "region");
  return { edge, runnable, region, face: runnable[0] ?? region ?? (edge[0] as TierManifest) }; // a manifest has one tier at least
}
