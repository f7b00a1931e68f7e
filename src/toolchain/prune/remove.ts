// Takes channels out of a graph: out of its constants, out of what is declared of shapes, and out of sizes that nodes have.

import { bytesOf } from "../../core/bytes.ts";
import { FreshNames, setInput } from "../onnx/edit.ts";
import { addInitializer } from "../onnx/initializers.ts";
import type { Model } from "../onnx/model-file.ts";
import { labelOf } from "../onnx/nodes.ts";
import type { NodeProto, TensorProto, ValueInfoProto } from "../onnx/proto/onnx_pb.js";
import { toTensor } from "../onnx/tensor-values.ts";
import { elementTypeOf, makeTensor, replaceData } from "../onnx/tensors.ts";
import type { Value } from "../onnx/values.ts";
import type { Axis } from "./coupling.ts";
import type { Shapes } from "./shapes.ts";
import type { Removal } from "./step.ts";
import { storedTensorOf, type Trace } from "./trace.ts";

/**
 * Changes the model; `trace` is of how it was.
 * @param units what stands for the channels, as `groupsOf` has it
 * @returns the shapes as they are now
 */
export function removeUnits(
  model: Model,
  trace: Trace,
  shapes: Shapes,
  units: ReadonlySet<number>,
): Shapes {
  const kept = keeperOf(trace, units);
  const infos = new Map(
    [...model.graph.valueInfo, ...model.graph.input].map((info) => [info.name, info]),
  );
  const after = new Map(shapes);
  for (const [value, axes] of trace.axes) {
    const tensor = storedTensorOf(value);
    const shape = shapes.get(value.name);
    if (shape !== undefined)
      after.set(
        value.name,
        shape.map((size, at) => kept(axes[at])?.length ?? size),
      );
    axes.forEach((axis, at) => {
      const left = kept(axis);
      if (left === undefined || left.length === axis?.length) return;
      declareSize(infos.get(value.name), at, left.length);
      if (tensor !== undefined) keepAlong(tensor, at, left);
    });
  }
  rewriteSizes(model, trace, (axis) => kept(axis)?.length ?? axis.length);
  return after;
}

/** How many indices of an axis would be left. */
export function leftAfter(trace: Trace, units: ReadonlySet<number>): (axis: Axis) => number {
  const kept = keeperOf(trace, units);
  return (axis) => kept(axis)?.length ?? axis.length;
}

/** @returns the positions along an axis that are left */
function keeperOf(
  { coupling }: Trace,
  units: ReadonlySet<number>,
): (axis: Axis | undefined) => readonly number[] | undefined {
  const known = new Map<Axis, readonly number[]>();
  return (axis) => {
    if (axis === undefined) return undefined;
    const before = known.get(axis);
    if (before !== undefined) return before;
    const positions: number[] = [];
    axis.forEach((index, at) => {
      if (!units.has(coupling.rootOf(index))) positions.push(at);
    });
    known.set(axis, positions);
    return positions;
  };
}

/** Constants of sizes that others read too stay for them. */
function rewriteSizes(model: Model, { table, rewrites }: Trace, left: Removal["left"]): void {
  const names = new FreshNames(model);
  const replaced = new Map<Value, number>();
  const giveSizes = (node: NodeProto, position: number, sizes: readonly number[]) => {
    const tensor = makeTensor(
      names.take(`${labelOf(node)}_sizes`),
      "int64",
      [BigInt(sizes.length)],
      BigInt64Array.from(sizes, BigInt),
    );
    addInitializer(model, model.graph, tensor);
    setInput(node, position, tensor.name);
    const before = table.inputsOf(node)[position];
    if (before !== undefined) replaced.set(before, (replaced.get(before) ?? 0) + 1);
  };
  for (const rewrite of rewrites) rewrite({ left, giveSizes });
  const unread = new Set(
    [...replaced].flatMap(([value, times]) => (times === value.uses.length ? [value.name] : [])),
  );
  model.graph.initializer = model.graph.initializer.filter(({ name }) => !unread.has(name));
}

function declareSize(info: ValueInfoProto | undefined, at: number, size: number): void {
  const type = info?.type?.value;
  const dimension = type?.case === "tensorType" ? type.value.shape?.dim[at] : undefined;
  if (dimension?.value.case === "dimValue")
    dimension.value = { case: "dimValue", value: BigInt(size) };
}

/** Leaves only some positions along an axis of a tensor. */
function keepAlong(tensor: TensorProto, at: number, positions: readonly number[]): void {
  const data = toTensor(tensor)?.data;
  const type = elementTypeOf(tensor.dataType);
  if (!ArrayBuffer.isView(data) || type === undefined)
    throw new TypeError(`${tensor.name} is ${type}, which has no numbers of whole bytes`);
  const bytes = bytesOf(data);
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
  replaceData(tensor, type, kept);
  tensor.dims[at] = BigInt(positions.length);
}
