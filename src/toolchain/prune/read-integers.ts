// What rules read of a node: axes and other whole numbers, in attributes or in constants among its inputs.

import { findAttribute } from "../onnx/nodes.ts";
import { readInt64s } from "./shape-tensor.ts";
import type { RuleContext } from "./propagation-rule.ts";

/** From the attribute, or from the input that has it in newer versions of the operator; undefined if it is in neither, or no constant. */
export function readIntegers(
  step: RuleContext,
  name: string,
  position: number,
): number[] | undefined {
  const attribute = findAttribute(step.node, name);
  if (attribute !== undefined) return attribute.ints.map(Number);
  const tensor = step.constant(position);
  return tensor && readInt64s(tensor);
}

/** An axis counted from the front. */
export const normalizeAxis = (axis: number, rank: number): number =>
  axis < 0 ? axis + rank : axis;
