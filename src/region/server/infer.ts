// One infer request against a loaded model: choose the tier, make its tensors, run, pick the outputs.

import { coreErrors } from "../../core/common-errors.ts";
import type { Clock } from "../../core/clock.ts";
import { asEdgeTierError, type EdgeTierError } from "../../core/errors.ts";
import type { Span } from "../../core/tracing.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import type { InferRequest, InferResponse } from "../../protocol/open-inference.ts";
import { validateRequestInputs } from "../../protocol/request-inputs.ts";
import {
  selectOutputs,
  readPriority,
  readTimeoutMs,
  readSelectedOutputs,
  rejectUnsupportedParameters,
} from "../../protocol/request-options.ts";
import { readTaskInputs } from "../../tasks/task-inputs.ts";
import type { Executor, TierRef, ExecutionRequest } from "./executor.ts";
import type { LoadedRegionModel, LoadedResumption, LoadedRegionTier } from "./load-region-model.ts";
import { defaultTierOf, TASK_INPUTS } from "./model-inputs.ts";
import {
  isCoalescable,
  type RequestCoalescer,
  noCoalescing,
  type Waiter,
} from "./request-coalescing.ts";

export interface InferContext {
  readonly executor: Executor;
  readonly coalescer: RequestCoalescer;
  readonly clock: Clock;
  /** Inputs of the task's own kind in one request, at most. */
  readonly maxRows: number;
  /** When the request came in, in milliseconds since the epoch: its `timeout` counts from then. */
  readonly receivedAtMs: number;
  /** Milliseconds since the epoch from which on nobody wants the answer; the request's `timeout` may be sooner. */
  readonly expiresAtMs: number | undefined;
  readonly signal: AbortSignal;
  /** Of the request. */
  readonly span: Span;
  /** Called once for a request whose inputs are right, when it is over. */
  readonly onOutcome: (outcome: InferOutcome) => void;
}

/** Triton's reasons: its queue's limits, a client that left, the runtime, anything else. */
export type FailureReason = "REJECTED" | "CANCELED" | "BACKEND" | "OTHER";

export interface InferOutcome {
  readonly tier: TierRef;
  /** From the decoded request to its outputs. */
  readonly durationMs: number;
  /** What of that was making the graph's inputs of the task's own. */
  readonly preprocessMs: number;
  /** It was answered by the run of another request, just like it. */
  readonly isCoalesced: boolean;
  /** Undefined for one that was answered. */
  readonly failure: FailureReason | undefined;
}

/**
 * Takes either the task's own inputs (one BYTES tensor `input`, a row each) or tensors by their names: those of the graph,
 * or those from which the tier goes on where an edge tier has begun.
 * Request parameters: `tier` (the last region tier by default), `timeout` in microseconds (0: none), `priority` (1 is the
 * highest; 0 or none: the model's default).
 * @returns the graph's raw outputs, all or those asked for, in the order asked for.
 * @throws invalid_request, unsupported, no_such_tier, invalid_tensor, too_many_inputs, what the task refuses, and what the executor throws.
 */
export async function infer(
  model: LoadedRegionModel,
  request: InferRequest,
  context: InferContext,
): Promise<InferResponse> {
  const { executor, coalescer: sharedRuns, clock, receivedAtMs, signal, span, onOutcome } = context;
  const { manifest } = model;
  rejectUnsupportedParameters(request);
  const tier = chooseTier(model, request.parameters?.["tier"]);
  const resumption = selectResumption(tier, request.inputs);
  const { session } = resumption ?? tier;
  const wanted = readSelectedOutputs(request, session.outputs, manifest.model);
  const timeoutMs = readTimeoutMs(request);
  const priority = readPriority(request);
  const expiresAtMs = Math.min(
    context.expiresAtMs ?? Infinity,
    timeoutMs === undefined ? Infinity : receivedAtMs + timeoutMs,
  );

  const of: TierRef = {
    model: manifest.model,
    version: manifest.version,
    tier: resumption?.name ?? tier.manifest.id,
  };
  span.setAttributes({
    "edgetier.model": of.model,
    "edgetier.version": of.version,
    "edgetier.tier": of.tier,
  });
  const startedMs = clock.now();
  let preprocessMs = 0;
  const start = async (waiter: Waiter): Promise<NamedTensors> => {
    const begunMs = clock.now();
    const prepared =
      resumption === undefined
        ? toGraphInputs(model, tier, request.inputs, context.maxRows)
        : validateInputs(manifest.model, session.inputs, request.inputs);
    const preparedMs = clock.now();
    preprocessMs = preparedMs - begunMs;
    span.startChild("preprocess", {}, { startMs: begunMs }).end(undefined, preparedMs);
    // A shared run does not expire with this request, but waits for company no longer than it can.
    const latencyBoundMs =
      waiter.expiresAtMs === undefined
        ? Math.min(manifest.deadlineMs, expiresAtMs - preparedMs)
        : manifest.deadlineMs;
    return await executor.execute({
      session,
      tier: of,
      batching: tier.serving.batching,
      ...prepared,
      ...waiter,
      priority,
      maxLatencyMs: latencyBoundMs,
      span,
    });
  };
  const report = (isShared: boolean, failure?: FailureReason) =>
    onOutcome({
      tier: of,
      durationMs: clock.now() - startedMs,
      preprocessMs,
      isCoalesced: isShared,
      failure,
    });
  const runs = isCoalescable(tier.serving.batching?.queue) ? sharedRuns : noCoalescing;
  const asked = {
    session,
    inputs: request.inputs,
    priority,
    expiresAtMs: expiresAtMs === Infinity ? undefined : expiresAtMs,
    signal,
  };
  const { outputs, isCoalesced: isShared } = await runs
    .execute(asked, start)
    .catch((thrown: unknown) => {
      const error = asEdgeTierError(thrown);
      if (error.status >= 499) report(false, failureReasonOf(error)); // below, the request was wrong
      throw thrown;
    });
  if (isShared) span.setAttributes({ "edgetier.shared_run": true });
  report(isShared);
  return {
    model: manifest.model,
    version: String(manifest.version),
    id: request.id,
    parameters: { tier: tier.manifest.id },
    outputs: selectOutputs(outputs, wanted, model.labels),
  };
}

function chooseTier(
  model: LoadedRegionModel,
  asked: string | number | boolean | undefined,
): LoadedRegionTier {
  const tier =
    asked === undefined
      ? defaultTierOf(model)
      : model.tiers.find((one) => one.manifest.id === asked);
  if (tier === undefined)
    throw coreErrors.noSuchTier(
      model.manifest.model,
      String(asked),
      model.tiers.map((one) => one.manifest.id),
    );
  return tier;
}

/** By the names alone: its inputs are never just those of the tier. */
function selectResumption(
  { resumption }: LoadedRegionTier,
  inputs: NamedTensors,
): LoadedResumption | undefined {
  const names = resumption?.session.inputs.map(({ name }) => name) ?? [];
  return names.length === Object.keys(inputs).length &&
    names.every((name) => Object.hasOwn(inputs, name))
    ? resumption
    : undefined;
}

function validateInputs(
  model: string,
  specs: readonly TensorSpec[],
  inputs: NamedTensors,
): Pick<ExecutionRequest, "inputs"> {
  validateRequestInputs(model, specs, inputs);
  return { inputs };
}

/** What was encoded here may be padded as its preprocessor says; a client's own tensors as the model's configuration does. */
function toGraphInputs(
  { manifest, parseInput }: LoadedRegionModel,
  { preprocessor, session }: LoadedRegionTier,
  inputs: NamedTensors,
  maxRows: number,
): Pick<ExecutionRequest, "inputs" | "padding"> {
  const rows =
    parseInput === undefined || preprocessor === undefined
      ? undefined
      : readTaskInputs(inputs, parseInput, maxRows);
  if (preprocessor !== undefined && rows !== undefined)
    return { inputs: preprocessor.encode(rows), padding: preprocessor.padding };
  const isGraphs =
    preprocessor === undefined || session.inputs.some(({ name }) => Object.hasOwn(inputs, name));
  return validateInputs(manifest.model, isGraphs ? session.inputs : TASK_INPUTS, inputs);
}

function failureReasonOf({ code }: EdgeTierError): FailureReason {
  if (code === "queue_full" || code === "request_expired") return "REJECTED";
  if (code === "request_cancelled") return "CANCELED";
  return code.startsWith("session_") ? "BACKEND" : "OTHER";
}
