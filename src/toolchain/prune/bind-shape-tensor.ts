// Binds a node's shape input to the channels that pruning removes. Sizes computed from a tensor's
// shape follow by themselves, and constants are rewritten. If neither is possible, the channels are
// frozen.

import type { TensorProto } from "../onnx/proto/onnx_pb.js";
import { replaceTensorData } from "../onnx/tensor-data.ts";
import type { Axes, Axis } from "./channel-coupling.ts";
import type { RuleContext } from "./propagation-rule.ts";
import { readInt64s, type ShapeElement } from "./shape-tensor.ts";

/**
 * Keeps an output's axes consistent with the sizes in an input. Freezes the axes for which that is
 * impossible.
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
  const rewritable: { readonly size: ShapeElement & { kind: "constant" }; readonly axis: Axis }[] =
    [];
  axes.forEach((axis, dimension) => {
    if (!coupling.isPrunable(axis)) return;
    const size = sizes?.length === axes.length ? sizes[dimension] : undefined;
    if (size?.kind === "axis" && size.axis !== undefined && coupling.areCoupled(size.axis, axis))
      return;
    if (size?.kind === "constant" && size.value === -1) return;
    const copied = first?.[dimension];
    if (
      size?.kind === "constant" &&
      size.value === 0 &&
      copied !== undefined &&
      coupling.areCoupled(copied, axis)
    )
      return;
    if (size?.kind === "constant" && size.value === axis.length && (isDirect || size.readers === 1))
      rewritable.push({ size, axis });
    else coupling.freeze([axis], `the shape input of ${label} contains the channel count`);
  });
  if (rewritable.length === 0) return;

  step.onRemoval(({ remainingSize, setInt64Input }) => {
    const changed = rewritable.filter(({ axis }) => remainingSize(axis) !== axis.length);
    if (changed.length === 0) return;
    const values = (sizes ?? []).map((size) => (size.kind === "constant" ? size.value : 0));
    for (const { size, axis } of changed) {
      values[size.index] = remainingSize(axis);
      if (!isDirect) writeInt64(size.tensor, size.index, remainingSize(axis));
    }
    if (isDirect) setInt64Input(node, position, values);
  });
}

function writeInt64(tensor: TensorProto, index: number, value: number): void {
  const values = BigInt64Array.from(readInt64s(tensor) ?? [], BigInt);
  values[index] = BigInt(value);
  replaceTensorData(tensor, "int64", values);
}
