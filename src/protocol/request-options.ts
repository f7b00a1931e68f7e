// Reads an infer request's options: selected outputs, classification, timeout, priority.

import { coreErrors } from "../core/common-errors.ts";
import { formatValue } from "../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../core/tensor.ts";
import { encodeClassification } from "./classification.ts";
import { protocolErrors } from "./errors.ts";
import type { InferRequest } from "./open-inference.ts";

export interface SelectedOutput {
  readonly name: string;
  /** Number of top classes to return; undefined returns all values. */
  readonly topClassCount: number | undefined;
}

/**
 * @param model name for error messages
 * @returns undefined if the request names no outputs
 * @throws invalid_tensor for an output that is not in `specs`; unsupported
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
        "Read the tensor's data from the response.",
      );
    const classes = parameters["classification"];
    if (classes === undefined || classes === 0) return { name, topClassCount: undefined };
    if (typeof classes !== "number" || !Number.isSafeInteger(classes) || classes < 0)
      throw protocolErrors.unparsableFields([
        `classification: ${formatValue(classes)} is not a non-negative integer (output ${name})`,
      ]);
    return { name, topClassCount: classes };
  });
}

/**
 * Returns the selected outputs in their requested order, or all outputs if none are selected.
 * @param labels label names for classification, ordered by index
 * @throws session_failed if the graph lacks an output; invalid_tensor for an output without class scores
 */
export function selectOutputs(
  outputs: NamedTensors,
  selected: readonly SelectedOutput[] | undefined,
  labels: readonly string[] | undefined,
): NamedTensors {
  if (selected === undefined) return outputs;
  const entries = selected.map(({ name, topClassCount }) => {
    const tensor = outputs[name];
    if (tensor === undefined) throw coreErrors.sessionFailed(`the graph has no output ${name}`);
    return [
      name,
      topClassCount === undefined
        ? tensor
        : encodeClassification(name, tensor, topClassCount, labels),
    ] as const;
  });
  return Object.fromEntries(entries);
}

/** Reads the parameter `timeout`, given in microseconds; 0 means no timeout. @throws invalid_request */
export function readTimeoutMs({ parameters }: InferRequest): number | undefined {
  const timeout = parameters?.["timeout"];
  if (timeout === undefined || timeout === 0) return undefined;
  if (typeof timeout === "number" && Number.isSafeInteger(timeout) && timeout > 0)
    return timeout / 1_000;
  throw protocolErrors.unparsableFields(["timeout: must be a non-negative integer (microseconds)"]);
}

/** Reads the parameter `priority`: 1 is the highest; 0 or absent selects the server's default. @throws invalid_request */
export function readPriority({ parameters }: InferRequest): number | undefined {
  const priority = parameters?.["priority"];
  if (
    priority === undefined ||
    (typeof priority === "number" && Number.isSafeInteger(priority) && priority >= 0)
  )
    return priority;
  throw protocolErrors.unparsableFields(["priority: must be a non-negative integer"]);
}

/** Parameters of Triton's sequence batcher, whose requests share state in the server. */
const SEQUENCE_PARAMETERS = ["sequence_id", "sequence_start", "sequence_end"];

/** Rejects unsupported parameters that would change the response. @throws unsupported, invalid_request */
export function rejectUnsupportedParameters({ parameters = {} }: InferRequest): void {
  for (const [name, value] of Object.entries(parameters)) {
    if (name.startsWith("triton_")) throw protocolErrors.reservedParameter(name);
    const isSet = value !== 0 && value !== "" && value !== false; // 0, "" and false mean no sequence
    if (SEQUENCE_PARAMETERS.includes(name) && isSet)
      throw coreErrors.unsupported(
        `Sequence batching (parameter ${name})`,
        "Send all data that a response depends on in one request.",
      );
  }
}
