// Sizes that a node is given, and channels that are removed: sizes that come from a tensor's shape follow by themselves,
// constants are rewritten, and where neither is possible, the channels stay.

import type { TensorProto } from "../onnx/proto/onnx_pb.js";
import { replaceData } from "../onnx/tensors.ts";
import type { Axes, Axis } from "./coupling.ts";
import { int64sOf, type Size } from "./sizes.ts";
import type { Step } from "./step.ts";

/**
 * Sees to it that an output's axes stay what the sizes in an input say, and keeps those as they are for which that cannot be.
 * @param zeroCopies whether 0 stands for the same axis of the first input
 */
export function followSizes(step: Step, position: number, axes: Axes, zeroCopies: boolean): void {
  const { coupling, node, label } = step;
  const sizes = step.takeSizes(position);
  const [first] = zeroCopies ? [step.take(0)] : [];
  const isDirect = step.constant(position) !== undefined;
  const written: { readonly size: Size & { kind: "number" }; readonly axis: Axis }[] = [];
  axes.forEach((axis, at) => {
    if (!coupling.isFree(axis)) return;
    const size = sizes?.length === axes.length ? sizes[at] : undefined;
    if (size?.kind === "of axis" && size.axis !== undefined && coupling.areSame(size.axis, axis))
      return;
    if (size?.kind === "number" && size.value === -1) return;
    const copied = first?.[at];
    if (
      size?.kind === "number" &&
      size.value === 0 &&
      copied !== undefined &&
      coupling.areSame(copied, axis)
    )
      return;
    if (size?.kind === "number" && size.value === axis.length && (isDirect || size.readers === 1))
      written.push({ size, axis });
    else coupling.freeze([axis], `${label} has their number in its sizes`);
  });
  if (written.length === 0) return;

  step.onRemoval(({ left, giveSizes }) => {
    const changed = written.filter(({ axis }) => left(axis) !== axis.length);
    if (changed.length === 0) return;
    const values = (sizes ?? []).map((size) => (size.kind === "number" ? size.value : 0));
    for (const { size, axis } of changed) {
      values[size.index] = left(axis);
      if (!isDirect) writeInt64(size.tensor, size.index, left(axis));
    }
    if (isDirect) giveSizes(node, position, values);
  });
}

function writeInt64(tensor: TensorProto, index: number, value: number): void {
  const values = BigInt64Array.from(int64sOf(tensor) ?? [], BigInt);
  values[index] = BigInt(value);
  replaceData(tensor, "int64", values);
}
