// What an infer request asks for beside its inputs: which outputs and in which form, how long it waits, how urgent it is.

import { protocolErrors } from "./errors.ts";
import { coreErrors } from "../core/common-errors.ts";
import { shown } from "../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../core/tensor.ts";
import { encodeClassification } from "./classification.ts";
import type { InferRequest } from "./open-inference.ts";

export interface SelectedOutput {
  readonly name: string;
  /** The largest values to answer with, in place of all of them. */
  readonly topClassCount: number | undefined;
}

/**
 * @param model its name, for the errors
 * @returns undefined where the request names none
 * @throws invalid_tensor for an output that is not among `specs`, unsupported; before anything is computed
 */
export function readSelectedOutputs(
  { outputs }: InferRequest,
  specs: readonly TensorSpec[],
  model: string,
): readonly SelectedOutput[] | undefined {
  return outputs?.map(({ name, parameters = {} }) => {
    if (!specs.some((spec) => spec.name === name))
      throw protocolErrors.unexpectedOutput(model, name);
    if ("shared_memory_region" in parameters)
      throw coreErrors.unsupported(
        `Shared memory (output ${name})`,
        "The tensor's data comes in the answer.",
      );
    const classes = parameters["classification"];
    if (classes === undefined || classes === 0) return { name, topClassCount: undefined };
    if (typeof classes !== "number" || !Number.isSafeInteger(classes) || classes < 0)
      throw protocolErrors.unparsableFields([
        `classification: ${shown(classes)} is not a whole number from 0 (output ${name})`,
      ]);
    return { name, topClassCount: classes };
  });
}

/**
 * The outputs asked for, in the order asked for; all where none were named.
 * @param labels by index, for classification
 * @throws session_failed where the graph gave no such output, invalid_tensor for one that cannot be classified
 */
export function selectOutputs(
  outputs: NamedTensors,
  wanted: readonly SelectedOutput[] | undefined,
  labels: readonly string[] | undefined,
): NamedTensors {
  if (wanted === undefined) return outputs;
  const picked = wanted.map(({ name, topClassCount: classes }) => {
    const tensor = outputs[name];
    if (tensor === undefined) throw coreErrors.sessionFailed(`the graph gave no output ${name}`);
    return [
      name,
      classes === undefined ? tensor : encodeClassification(name, tensor, classes, labels),
    ] as const;
  });
  return Object.fromEntries(picked);
}

/** The parameter `timeout`, in microseconds there; 0 or none is none. @throws invalid_request */
export function readTimeoutMs({ parameters }: InferRequest): number | undefined {
  const timeout = parameters?.["timeout"];
  if (timeout === undefined || timeout === 0) return undefined;
  if (typeof timeout === "number" && Number.isSafeInteger(timeout) && timeout > 0)
    return timeout / 1_000;
  throw protocolErrors.unparsableFields(["timeout: must be a whole number of microseconds from 0"]);
}

/** The parameter `priority`: 1 is the highest, 0 or none the server's default. @throws invalid_request */
export function readPriority({ parameters }: InferRequest): number | undefined {
  const priority = parameters?.["priority"];
  if (
    priority === undefined ||
    (typeof priority === "number" && Number.isSafeInteger(priority) && priority >= 0)
  )
    return priority;
  throw protocolErrors.unparsableFields(["priority: must be a whole number from 0"]);
}

/** Of Triton's sequence batcher: requests that share a state in the server. */
const SEQUENCE_PARAMETERS = ["sequence_id", "sequence_start", "sequence_end"];

/** Refuses parameters that would change the answer, and that nobody heeds here. @throws unsupported, invalid_request */
export function rejectUnsupportedParameters({ parameters = {} }: InferRequest): void {
  for (const [name, value] of Object.entries(parameters)) {
    if (name.startsWith("triton_")) throw protocolErrors.reservedParameter(name);
    const isAsked = value !== 0 && value !== "" && value !== false; // 0 and false: no sequence
    if (SEQUENCE_PARAMETERS.includes(name) && isAsked)
      throw coreErrors.unsupported(
        `Sequence batching (parameter ${name})`,
        "Send what an answer depends on in one request.",
      );
  }
}
