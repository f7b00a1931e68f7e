// What rules read of a node: axes and other whole numbers, in attributes or in constants among its inputs.

import { attributeOf } from "../onnx/nodes.ts";
import { int64sOf } from "./sizes.ts";
import type { Step } from "./step.ts";

/** From the attribute, or from the input that has it in newer versions of the operator; undefined if it is in neither, or no constant. */
export function integers(step: Step, name: string, position: number): number[] | undefined {
  const attribute = attributeOf(step.node, name);
  if (attribute !== undefined) return attribute.ints.map(Number);
  const tensor = step.constant(position);
  return tensor && int64sOf(tensor);
}

/** An axis counted from the front. */
export const fromFront = (axis: number, rank: number): number => (axis < 0 ? axis + rank : axis);
