// Removes channels from a graph: from constants, from declared shapes, and from the sizes in nodes.

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
 * Changes the model in place.
 * @param trace trace of the model before the removal
 * @param units units of `findChannelGroups`
 * @returns the new shapes
 */
export function removeUnits(
  model: Model,
  trace: ChannelTrace,
  shapes: TensorShapes,
  units: ReadonlySet<number>,
): TensorShapes {
  const remainingPositions = createRemainingPositionsLookup(trace, units);
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
        shape.map((size, dimension) => remainingPositions(axes[dimension])?.length ?? size),
      );
    axes.forEach((axis, dimension) => {
      const positions = remainingPositions(axis);
      if (positions === undefined || positions.length === axis?.length) return;
      setDeclaredDim(infos.get(value.name), dimension, positions.length);
      if (tensor !== undefined) selectAlongAxis(tensor, dimension, positions);
    });
  }
  applyRewrites(model, trace, (axis) => remainingPositions(axis)?.length ?? axis.length);
  return after;
}

/** Returns a function for the number of indices that would remain along an axis. */
export function createRemainingSizeLookup(
  trace: ChannelTrace,
  units: ReadonlySet<number>,
): (axis: Axis) => number {
  const remainingPositions = createRemainingPositionsLookup(trace, units);
  return (axis) => remainingPositions(axis)?.length ?? axis.length;
}

/** @returns a function for the positions that remain along an axis */
function createRemainingPositionsLookup(
  { coupling }: ChannelTrace,
  units: ReadonlySet<number>,
): (axis: Axis | undefined) => readonly number[] | undefined {
  const cache = new Map<Axis, readonly number[]>();
  return (axis) => {
    if (axis === undefined) return undefined;
    const cached = cache.get(axis);
    if (cached !== undefined) return cached;
    const positions: number[] = [];
    axis.forEach((index, position) => {
      if (!units.has(coupling.findRoot(index))) positions.push(position);
    });
    cache.set(axis, positions);
    return positions;
  };
}

/** Constants of sizes that other nodes read too stay in the graph. */
function applyRewrites(
  model: Model,
  { table, rewrites }: ChannelTrace,
  remainingSize: RemovalContext["remainingSize"],
): void {
  const names = new UniqueNames(model);
  const replacedUses = new Map<Value, number>();
  const setInt64Input = (node: NodeProto, position: number, sizes: readonly number[]) => {
    const tensor = makeTensor(
      names.reserve(`${displayNameOf(node)}_sizes`),
      "int64",
      [BigInt(sizes.length)],
      BigInt64Array.from(sizes, BigInt),
    );
    addInitializer(model, model.graph, tensor);
    setInput(node, position, tensor.name);
    const before = table.inputsOf(node)[position];
    if (before !== undefined) replacedUses.set(before, (replacedUses.get(before) ?? 0) + 1);
  };
  for (const rewrite of rewrites) rewrite({ remainingSize, setInt64Input });
  const unread = new Set(
    [...replacedUses].flatMap(([value, times]) =>
      times === value.uses.length ? [value.name] : [],
    ),
  );
  model.graph.initializer = model.graph.initializer.filter(({ name }) => !unread.has(name));
}

function setDeclaredDim(info: ValueInfoProto | undefined, axis: number, size: number): void {
  const type = info?.type?.value;
  const dimension = type?.case === "tensorType" ? type.value.shape?.dim[axis] : undefined;
  if (dimension?.value.case === "dimValue")
    dimension.value = { case: "dimValue", value: BigInt(size) };
}

/** Keeps only the given positions along an axis of a tensor. */
function selectAlongAxis(tensor: TensorProto, axis: number, positions: readonly number[]): void {
  const data = toTensor(tensor)?.data;
  const type = elementTypeOf(tensor.dataType);
  if (!ArrayBuffer.isView(data) || type === undefined)
    throw new TypeError(`${tensor.name} has type ${type}, whose elements are not whole bytes.`);
  const bytes = byteView(data);
  const size = Number(tensor.dims[axis] ?? 1n);
  const outer = tensor.dims.slice(0, axis).reduce((product, dim) => product * Number(dim), 1);
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
  tensor.dims[axis] = BigInt(positions.length);
}
