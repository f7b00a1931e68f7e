// Reads task inputs from an infer request: one BYTES tensor with one element per input. Edge and region share it.

import { coreErrors } from "../core/common-errors.ts";
import type { NamedTensors, TensorSpec } from "../core/tensor.ts";
import { taskErrors } from "./errors.ts";
import { TASK_INPUT_NAME, type TaskInput } from "./task.ts";

/** Declared inputs of a server for a model with a task: one element per input. */
export const TASK_INPUT_SPECS: readonly TensorSpec[] = [
  { name: TASK_INPUT_NAME, datatype: "BYTES", shape: [-1] },
];

/**
 * @param parseRow decodes one element, like `Task.decodeInput`
 * @returns undefined if the tensors are the graph's own inputs
 * @throws invalid_tensor, too_many_inputs, and the errors of `parseRow`
 */
export function readTaskInputs(
  inputs: NamedTensors,
  parseRow: (bytes: Uint8Array, index: number) => TaskInput,
  maxRows: number,
): TaskInput[] | undefined {
  const tensor = Object.hasOwn(inputs, TASK_INPUT_NAME) ? inputs[TASK_INPUT_NAME] : undefined;
  if (tensor?.datatype !== "BYTES") return undefined;
  const other = Object.keys(inputs).find((name) => name !== TASK_INPUT_NAME);
  if (other !== undefined)
    throw coreErrors.invalidTensor(other, `it cannot be combined with ${TASK_INPUT_NAME}`);
  const { data, shape } = tensor;
  const isColumn = shape.length === 1 || (shape.length === 2 && shape[1] === 1);
  if (!isColumn || data.length === 0)
    throw coreErrors.invalidTensor(
      TASK_INPUT_NAME,
      `shape [${shape.join(", ")}], expected [n] or [n, 1] with n of at least 1`,
    );
  if (data.length > maxRows) throw taskErrors.tooManyInputs(data.length, maxRows);
  return data.map(parseRow);
}
