// Sizes that a node is given, and channels that are removed: sizes that come from a tensor's shape follow by themselves,
// constants are rewritten, and where neither is possible, the channels stay.

import type { TensorProto } from "../onnx/proto/onnx_pb.js";
import { replaceTensorData } from "../onnx/tensor-data.ts";
import type { Axes, Axis } from "./channel-coupling.ts";
import { readInt64s, type ShapeElement } from "./shape-tensor.ts";
import type { RuleContext } from "./propagation-rule.ts";

/**
 * Sees to it that an output's axes stay what the sizes in an input say, and keeps those as they are for which that cannot be.
 * @param zeroCopies whether 0 stands for the same axis of the first input
 */
export function bindShapeTensor(
  step: RuleContext,
  position: number,
  axes: Axes,
  zeroCopies: boolean,
): void {
  const { coupling, node, label } = step;
  const sizes = step.claimShapeTensor(position);
  const [first] = zeroCopies ? [step.claimInput(0)] : [];
  const isDirect = step.constant(position) !== undefined;
  const written: { readonly size: ShapeElement & { kind: "constant" }; readonly axis: Axis }[] = [];
  axes.forEach((axis, at) => {
    if (!coupling.isPrunable(axis)) return;
    const size = sizes?.length === axes.length ? sizes[at] : undefined;
    if (size?.kind === "axis" && size.axis !== undefined && coupling.areCoupled(size.axis, axis))
      return;
    if (size?.kind === "constant" && size.value === -1) return;
    const copied = first?.[at];
    if (
      size?.kind === "constant" &&
      size.value === 0 &&
      copied !== undefined &&
      coupling.areCoupled(copied, axis)
    )
      return;
    if (size?.kind === "constant" && size.value === axis.length && (isDirect || size.readers === 1))
      written.push({ size, axis });
    else coupling.freeze([axis], `${label} has their number in its sizes`);
  });
  if (written.length === 0) return;

  step.onRemoval(({ remainingSize: left, setInt64Input: giveSizes }) => {
    const changed = written.filter(({ axis }) => left(axis) !== axis.length);
    if (changed.length === 0) return;
    const values = (sizes ?? []).map((size) => (size.kind === "constant" ? size.value : 0));
    for (const { size, axis } of changed) {
      values[size.index] = left(axis);
      if (!isDirect) writeInt64(size.tensor, size.index, left(axis));
    }
    if (isDirect) giveSizes(node, position, values);
  });
}

function writeInt64(tensor: TensorProto, index: number, value: number): void {
  const values = BigInt64Array.from(readInt64s(tensor) ?? [], BigInt);
  values[index] = BigInt(value);
  replaceTensorData(tensor, "int64", values);
}
