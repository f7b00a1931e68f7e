// Runs one infer request against a loaded model: chooses the tier, prepares its tensors, runs it, selects the outputs.

import type { Clock } from "../../core/clock.ts";
import { coreErrors } from "../../core/common-errors.ts";
import { asEdgeTierError, type EdgeTierError } from "../../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import type { Span } from "../../core/tracing.ts";
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
  /** Maximum number of task inputs in one request. */
  readonly maxRows: number;
  /** Arrival in milliseconds since the epoch; the request's `timeout` counts from here. */
  readonly receivedAtMs: number;
  /** Deadline in milliseconds since the epoch; the request's `timeout` may be earlier. */
  readonly expiresAtMs: number | undefined;
  readonly signal: AbortSignal;
  readonly span: Span;
  /** Called once when a request with valid inputs ends. */
  readonly onOutcome: (outcome: InferOutcome) => void;
}

/** Triton's failure reasons: queue limits, a disconnected client, the runtime, anything else. */
export type FailureReason = "REJECTED" | "CANCELED" | "BACKEND" | "OTHER";

export interface InferOutcome {
  readonly tier: TierRef;
  /** From the decoded request to its outputs. */
  readonly durationMs: number;
  /** Part of `durationMs` spent on converting task inputs into graph inputs. */
  readonly preprocessMs: number;
  /** Whether the run of an identical request answered this one. */
  readonly isCoalesced: boolean;
  /** Undefined for an answered request. */
  readonly failure: FailureReason | undefined;
}

/** A request's inputs, matched with the tier that runs them. */
interface PreparedRequest {
  readonly tier: LoadedRegionTier;
  readonly resumption: LoadedResumption | undefined;
  readonly tierRef: TierRef;
  readonly selectedOutputs: ReturnType<typeof readSelectedOutputs>;
  readonly priority: number | undefined;
  /** Infinity without a deadline. */
  readonly expiresAtMs: number;
}

/**
 * Accepts the task's own inputs (one BYTES tensor `input`, one row each) or tensors by name. Tensors are the graph's inputs, or
 * the inputs of a resumption of an edge tier's work.
 * Request parameters: `tier` (default: the last region tier), `timeout` in microseconds (0: none), `priority` (1 is the
 * highest; 0 or none: the model's default).
 * @returns the graph's raw outputs, all or the requested ones, in the requested order
 * @throws invalid_request, unsupported, no_such_tier, invalid_tensor, too_many_inputs, the task's rejections, and what the executor throws
 */
export async function infer(
  model: LoadedRegionModel,
  request: InferRequest,
  context: InferContext,
): Promise<InferResponse> {
  const { clock, signal, span, onOutcome } = context;
  const { manifest } = model;
  rejectUnsupportedParameters(request);
  const prepared = prepareRequest(model, request, context);
  const { tier, tierRef, selectedOutputs, priority, expiresAtMs } = prepared;
  const { session } = prepared.resumption ?? tier;
  span.setAttributes({
    "edgetier.model": tierRef.model,
    "edgetier.version": tierRef.version,
    "edgetier.tier": tierRef.tier,
  });

  const startedAtMs = clock.now();
  let preprocessMs = 0;
  const report = (isCoalesced: boolean, failure?: FailureReason) =>
    onOutcome({
      tier: tierRef,
      durationMs: clock.now() - startedAtMs,
      preprocessMs,
      isCoalesced,
      failure,
    });
  const coalescer = isCoalescable(tier.serving.batching?.queue) ? context.coalescer : noCoalescing;
  const { outputs, isCoalesced } = await coalescer
    .execute(
      {
        session,
        inputs: request.inputs,
        priority,
        expiresAtMs: expiresAtMs === Infinity ? undefined : expiresAtMs,
        signal,
      },
      (waiter) =>
        execute(model, request, prepared, context, waiter, (durationMs) => {
          preprocessMs = durationMs;
        }),
    )
    .catch((thrown: unknown) => {
      const error = asEdgeTierError(thrown);
      if (error.status >= 499) report(false, classifyFailure(error)); // Below 499, the request was invalid.
      throw thrown;
    });
  if (isCoalesced) span.setAttributes({ "edgetier.shared_run": true });
  report(isCoalesced);
  return {
    model: manifest.model,
    version: String(manifest.version),
    id: request.id,
    parameters: { tier: tier.manifest.id },
    outputs: selectOutputs(outputs, selectedOutputs, model.labels),
  };
}

function prepareRequest(
  model: LoadedRegionModel,
  request: InferRequest,
  context: InferContext,
): PreparedRequest {
  const { manifest } = model;
  const tier = chooseTier(model, request.parameters?.["tier"]);
  const resumption = selectResumption(tier, request.inputs);
  const { session } = resumption ?? tier;
  // Outputs are validated before the timeout and the priority, so a request with several faults reports the outputs first.
  const selectedOutputs = readSelectedOutputs(request, session.outputs, manifest.model);
  const timeoutMs = readTimeoutMs(request);
  return {
    tier,
    resumption,
    tierRef: {
      model: manifest.model,
      version: manifest.version,
      tier: resumption?.name ?? tier.manifest.id,
    },
    selectedOutputs,
    priority: readPriority(request),
    expiresAtMs: Math.min(
      context.expiresAtMs ?? Infinity,
      timeoutMs === undefined ? Infinity : context.receivedAtMs + timeoutMs,
    ),
  };
}

/** Converts the inputs and hands them to the executor. */
async function execute(
  model: LoadedRegionModel,
  request: InferRequest,
  { tier, resumption, tierRef, priority, expiresAtMs }: PreparedRequest,
  { executor, clock, span, maxRows }: InferContext,
  waiter: Waiter,
  onPreprocessed: (durationMs: number) => void,
): Promise<NamedTensors> {
  const { manifest } = model;
  const { session } = resumption ?? tier;
  const startedAtMs = clock.now();
  const graphInputs =
    resumption === undefined
      ? toGraphInputs(model, tier, request.inputs, maxRows)
      : validateInputs(manifest.model, session.inputs, request.inputs);
  const preparedAtMs = clock.now();
  onPreprocessed(preparedAtMs - startedAtMs);
  span.startChild("preprocess", {}, { startMs: startedAtMs }).end(undefined, preparedAtMs);
  // A shared run does not expire with this request, but waits for a batch no longer than this request can.
  const maxLatencyMs =
    waiter.expiresAtMs === undefined
      ? Math.min(manifest.deadlineMs, expiresAtMs - preparedAtMs)
      : manifest.deadlineMs;
  return await executor.execute({
    session,
    tier: tierRef,
    batching: tier.serving.batching,
    ...graphInputs,
    ...waiter,
    priority,
    maxLatencyMs,
    span,
  });
}

function chooseTier(
  model: LoadedRegionModel,
  tierId: string | number | boolean | undefined,
): LoadedRegionTier {
  const tier =
    tierId === undefined
      ? defaultTierOf(model)
      : model.tiers.find(({ manifest }) => manifest.id === tierId);
  if (tier === undefined)
    throw coreErrors.noSuchTier(
      model.manifest.model,
      String(tierId),
      model.tiers.map(({ manifest }) => manifest.id),
    );
  return tier;
}

/** Matches by name only: the inputs of a resumption never equal those of its tier. */
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

/** Inputs encoded here are padded by their preprocessor's rule, and a client's own tensors by the model's configuration. */
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
  const isGraphInput =
    preprocessor === undefined || session.inputs.some(({ name }) => Object.hasOwn(inputs, name));
  return validateInputs(manifest.model, isGraphInput ? session.inputs : TASK_INPUTS, inputs);
}

function classifyFailure({ code }: EdgeTierError): FailureReason {
  if (code === "queue_full" || code === "request_expired") return "REJECTED";
  if (code === "request_cancelled") return "CANCELED";
  return code.startsWith("session_") ? "BACKEND" : "OTHER";
}
