// A task's own inputs among an infer request's tensors: one BYTES tensor, an element for each. The same at edge and region.

import { coreErrors } from "../core/common-errors.ts";
import { taskErrors } from "./errors.ts";
import type { NamedTensors, TensorSpec } from "../core/tensor.ts";
import { TASK_INPUT_NAME, type TaskInput } from "./task.ts";

/** What a server takes for a model that has a task: one element each. */
export const TASK_INPUT_SPECS: readonly TensorSpec[] = [
  { name: TASK_INPUT_NAME, datatype: "BYTES", shape: [-1] },
];

/**
 * @param parseRow as Task.fromBytes, for this model
 * @returns undefined where the tensors are a graph's own
 * @throws invalid_tensor, too_many_inputs, and what `parseRow` throws
 */
export function readTaskInputs(
  inputs: NamedTensors,
  parseRow: (bytes: Uint8Array, index: number) => TaskInput,
  maxRows: number,
): TaskInput[] | undefined {
  const own = Object.hasOwn(inputs, TASK_INPUT_NAME) ? inputs[TASK_INPUT_NAME] : undefined;
  if (own?.datatype !== "BYTES") return undefined;
  const other = Object.keys(inputs).find((name) => name !== TASK_INPUT_NAME);
  if (other !== undefined)
    throw coreErrors.invalidTensor(other, `it cannot be given together with ${TASK_INPUT_NAME}`);
  const { data, shape } = own;
  const isColumn = shape.length === 1 || (shape.length === 2 && shape[1] === 1);
  if (!isColumn || data.length === 0)
    throw coreErrors.invalidTensor(
      TASK_INPUT_NAME,
      `shape [${shape.join(", ")}], expected [n] or [n, 1] with n from 1`,
    );
  if (data.length > maxRows) throw taskErrors.tooManyInputs(data.length, maxRows);
  return data.map(parseRow);
}
