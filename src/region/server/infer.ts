// One infer request against a loaded model: choose the tier, make its tensors, run, pick the outputs.

import { errors, shown } from "../../core/errors.ts";
import type { NamedTensors, Tensor } from "../../core/tensor.ts";
import { classify } from "../../protocol/classification.ts";
import type { InferRequest, InferResponse } from "../../protocol/open-inference.ts";
import { TASK_INPUT_NAME, type TaskInput } from "../../tasks/task.ts";
import type { Executor, Work } from "./executor.ts";
import type { LoadedModel, LoadedTier } from "./load-model.ts";

export interface InferContext {
  readonly executor: Executor;
  /** Inputs of the task's own kind in one request, at most. */
  readonly maxRows: number;
  /** When the request came in, in milliseconds since the epoch: its `timeout` counts from then. */
  readonly receivedAtMs: number;
  readonly signal: AbortSignal;
}

/**
 * Takes either the task's own inputs (one BYTES tensor `input`, a row each) or the graph's tensors by their names.
 * Request parameters: `tier` (the last region tier by default), `timeout` in microseconds (0: none), `priority` (1 is the
 * highest; 0 or none: the executor's default).
 * @returns the graph's raw outputs, all or those asked for, in the order asked for.
 * @throws invalid_request, no_such_tier, invalid_tensor, too_many_inputs, what the task refuses, and what the executor throws.
 */
export async function infer(model: LoadedModel, request: InferRequest, context: InferContext): Promise<InferResponse> {
  const tier = chooseTier(model, request.parameters?.["tier"]);
  const wanted = chooseOutputs(tier, request);
  const timeoutMs = readTimeoutMs(request.parameters?.["timeout"]);
  const outputs = await context.executor.execute({
    session: tier.session,
    ...toGraphInputs(model, tier, request.inputs, context.maxRows),
    priority: readPriority(request.parameters?.["priority"]),
    latencyBoundMs: model.manifest.deadlineMs,
    expiresAtMs: timeoutMs === undefined ? undefined : context.receivedAtMs + timeoutMs,
    signal: context.signal,
  });
  return {
    model: model.manifest.model,
    version: String(model.manifest.version),
    id: request.id,
    parameters: { tier: tier.manifest.id },
    outputs: wanted === undefined ? outputs : Object.fromEntries(wanted.map(({ name, classes }) => [name, answerOf(model, outputs, name, classes)])),
  };
}

function chooseTier(model: LoadedModel, asked: string | number | boolean | undefined): LoadedTier {
  const tier = asked === undefined ? model.tiers.at(-1) : model.tiers.find((one) => one.manifest.id === asked);
  if (tier === undefined) throw errors.noSuchTier(model.manifest.model, String(asked), model.tiers.map((one) => one.manifest.id));
  return tier;
}

interface WantedOutput {
  readonly name: string;
  /** The largest values to answer with, in place of all of them. */
  readonly classes: number | undefined;
}

/** Refuses an unknown output before anything is computed. */
function chooseOutputs(tier: LoadedTier, request: InferRequest): readonly WantedOutput[] | undefined {
  return request.outputs?.map(({ name, parameters }) => {
    if (!tier.session.outputs.some((spec) => spec.name === name)) throw errors.invalidTensor(name, "the model has no such output");
    const classes = parameters?.["classification"];
    if (classes === undefined || classes === 0) return { name, classes: undefined };
    if (typeof classes !== "number" || !Number.isSafeInteger(classes) || classes < 0) throw errors.invalidTensor(name, `classification ${shown(classes)} is not a whole number from 0`);
    return { name, classes };
  });
}

function answerOf({ labels }: LoadedModel, outputs: NamedTensors, name: string, classes: number | undefined): Tensor {
  const tensor = outputs[name];
  if (tensor === undefined) throw errors.sessionFailed(`the graph gave no output ${name}`);
  return classes === undefined ? tensor : classify(name, tensor, classes, labels);
}

function readTimeoutMs(timeout: string | number | boolean | undefined): number | undefined {
  if (timeout === undefined || timeout === 0) return undefined;
  if (typeof timeout === "number" && Number.isSafeInteger(timeout) && timeout > 0) return timeout / 1_000;
  throw errors.invalidRequest(["parameters.timeout: must be a whole number of microseconds from 0"]);
}

function readPriority(priority: string | number | boolean | undefined): number | undefined {
  if (priority === undefined || (typeof priority === "number" && Number.isSafeInteger(priority) && priority >= 0)) return priority;
  throw errors.invalidRequest(["parameters.priority: must be a whole number from 0"]);
}

/** Only what was encoded here may be padded: a client's own tensors are run as they are. */
function toGraphInputs(model: LoadedModel, tier: LoadedTier, inputs: NamedTensors, maxRows: number): Pick<Work, "inputs" | "padding"> {
  const { parseInput } = model;
  const { preprocessor } = tier;
  const own = Object.hasOwn(inputs, TASK_INPUT_NAME) ? inputs[TASK_INPUT_NAME] : undefined;
  if (parseInput === undefined || preprocessor === undefined || own?.datatype !== "BYTES") return { inputs }; // the graph's own tensors; the session checks them
  const unknown = Object.keys(inputs).find((name) => name !== TASK_INPUT_NAME);
  if (unknown !== undefined) throw errors.invalidTensor(unknown, `it cannot be given together with ${TASK_INPUT_NAME}`);
  return { inputs: preprocessor.encode(parseRows(parseInput, own.data, own.shape, maxRows)), padding: preprocessor.padding };
}

function parseRows(parseInput: (bytes: Uint8Array, index: number) => TaskInput, rows: readonly Uint8Array[], shape: readonly number[], maxRows: number): TaskInput[] {
  const isColumn = shape.length === 1 || (shape.length === 2 && shape[1] === 1);
  if (!isColumn || rows.length === 0) throw errors.invalidTensor(TASK_INPUT_NAME, `shape [${shape.join(", ")}], expected [n] or [n, 1] with n from 1`);
  if (rows.length > maxRows) throw errors.tooManyInputs(rows.length, maxRows);
  return rows.map(parseInput);
}
