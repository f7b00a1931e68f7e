// Takes channels out of a graph: out of its constants, out of what is declared of shapes, and out of sizes that nodes have.

import { byteView } from "../../core/bytes.ts";
import { UniqueNames, setInput } from "../onnx/graph-edits.ts";
import { addInitializer } from "../onnx/initializers.ts";
import type { Model } from "../onnx/model-file.ts";
import { displayNameOf } from "../onnx/nodes.ts";
import type { NodeProto, TensorProto, ValueInfoProto } from "../onnx/proto/onnx_pb.js";
import { toTensor } from "../onnx/tensor-conversion.ts";
import { elementTypeOf, makeTensor, replaceTensorData } from "../onnx/tensor-data.ts";
import type { Value } from "../onnx/value-table.ts";
import type { Axis } from "./channel-coupling.ts";
import type { TensorShapes } from "./measure-shapes.ts";
import type { RemovalContext } from "./propagation-rule.ts";
import { editableTensorOf, type ChannelTrace } from "./trace-channels.ts";

/**
 * Changes the model; `trace` is of how it was.
 * @param units what stands for the channels, as `findChannelGroups` has it
 * @returns the shapes as they are now
 */
export function removeUnits(
  model: Model,
  trace: ChannelTrace,
  shapes: TensorShapes,
  units: ReadonlySet<number>,
): TensorShapes {
  const kept = createRemainingPositionsLookup(trace, units);
  const infos = new Map(
    [...model.graph.valueInfo, ...model.graph.input].map((info) => [info.name, info]),
  );
  const after = new Map(shapes);
  for (const [value, axes] of trace.axes) {
    const tensor = editableTensorOf(value);
    const shape = shapes.get(value.name);
    if (shape !== undefined)
      after.set(
        value.name,
        shape.map((size, at) => kept(axes[at])?.length ?? size),
      );
    axes.forEach((axis, at) => {
      const left = kept(axis);
      if (left === undefined || left.length === axis?.length) return;
      setDeclaredDim(infos.get(value.name), at, left.length);
      if (tensor !== undefined) selectAlongAxis(tensor, at, left);
    });
  }
  applyRewrites(model, trace, (axis) => kept(axis)?.length ?? axis.length);
  return after;
}

/** How many indices of an axis would be left. */
export function createRemainingSizeLookup(
  trace: ChannelTrace,
  units: ReadonlySet<number>,
): (axis: Axis) => number {
  const kept = createRemainingPositionsLookup(trace, units);
  return (axis) => kept(axis)?.length ?? axis.length;
}

/** @returns the positions along an axis that are left */
function createRemainingPositionsLookup(
  { coupling }: ChannelTrace,
  units: ReadonlySet<number>,
): (axis: Axis | undefined) => readonly number[] | undefined {
  const known = new Map<Axis, readonly number[]>();
  return (axis) => {
    if (axis === undefined) return undefined;
    const before = known.get(axis);
    if (before !== undefined) return before;
    const positions: number[] = [];
    axis.forEach((index, at) => {
      if (!units.has(coupling.findRoot(index))) positions.push(at);
    });
    known.set(axis, positions);
    return positions;
  };
}

/** Constants of sizes that others read too stay for them. */
function applyRewrites(
  model: Model,
  { table, rewrites }: ChannelTrace,
  left: RemovalContext["remainingSize"],
): void {
  const names = new UniqueNames(model);
  const replaced = new Map<Value, number>();
  const giveSizes = (node: NodeProto, position: number, sizes: readonly number[]) => {
    const tensor = makeTensor(
      names.reserve(`${displayNameOf(node)}_sizes`),
      "int64",
      [BigInt(sizes.length)],
      BigInt64Array.from(sizes, BigInt),
    );
    addInitializer(model, model.graph, tensor);
    setInput(node, position, tensor.name);
    const before = table.inputsOf(node)[position];
    if (before !== undefined) replaced.set(before, (replaced.get(before) ?? 0) + 1);
  };
  for (const rewrite of rewrites) rewrite({ remainingSize: left, setInt64Input: giveSizes });
  const unread = new Set(
    [...replaced].flatMap(([value, times]) => (times === value.uses.length ? [value.name] : [])),
  );
  model.graph.initializer = model.graph.initializer.filter(({ name }) => !unread.has(name));
}

function setDeclaredDim(info: ValueInfoProto | undefined, at: number, size: number): void {
  const type = info?.type?.value;
  const dimension = type?.case === "tensorType" ? type.value.shape?.dim[at] : undefined;
  if (dimension?.value.case === "dimValue")
    dimension.value = { case: "dimValue", value: BigInt(size) };
}

/** Leaves only some positions along an axis of a tensor. */
function selectAlongAxis(tensor: TensorProto, at: number, positions: readonly number[]): void {
  const data = toTensor(tensor)?.data;
  const type = elementTypeOf(tensor.dataType);
  if (!ArrayBuffer.isView(data) || type === undefined)
    throw new TypeError(`${tensor.name} is ${type}, which has no numbers of whole bytes`);
  const bytes = byteView(data);
  const size = Number(tensor.dims[at] ?? 1n);
  const outer = tensor.dims.slice(0, at).reduce((product, one) => product * Number(one), 1);
  const block = bytes.byteLength / (outer * size);
  const kept = new Uint8Array(outer * positions.length * block);
  let offset = 0;
  for (let row = 0; row < outer; row++) {
    for (const position of positions) {
      const start = (row * size + position) * block;
      kept.set(bytes.subarray(start, start + block), offset);
      offset += block;
    }
  }
  replaceTensorData(tensor, type, kept);
  tensor.dims[at] = BigInt(positions.length);
}
