// Reads whole numbers such as axes from a node's attributes or constant inputs, for propagation
// rules.

import { findAttribute } from "../onnx/nodes.ts";
import type { RuleContext } from "./propagation-rule.ts";
import { readInt64s } from "./shape-tensor.ts";

/**
 * Reads the attribute, or the input that replaces it in newer opsets.
 * @returns undefined if there is neither, or if the input is not constant
 */
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

/** Returns the axis counted from the front. */
export const normalizeAxis = (axis: number, rank: number): number =>
  axis < 0 ? axis + rank : axis;
