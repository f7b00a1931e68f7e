// Tensors of sizes, as Reshape takes them: constants, or made of other tensors' shapes by a few operators, as exporters
// write `x.view(x.size(0), -1)`.

import { readIntAttribute } from "../onnx/graph-queries.ts";
import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import { toTensor } from "../onnx/tensor-conversion.ts";
import { elementTypeOf } from "../onnx/tensor-data.ts";
import type { Axes, Axis } from "./channel-coupling.ts";

export type ShapeElement =
  /** `readers`: the most that any tensor has on the way from the constant to here. */
  | {
      readonly kind: "constant";
      readonly value: number;
      readonly tensor: TensorProto;
      readonly index: number;
      readonly readers: number;
    }
  | { readonly kind: "axis"; readonly axis: Axis | undefined };

/** Longer ones are no shapes. */
const MAX_SHAPE_RANK = 16;

export function readConstantShapeTensor(
  tensor: TensorProto,
  readers: number,
): readonly ShapeElement[] | undefined {
  if (tensor.dims.length > 1 || Number(tensor.dims[0] ?? 1n) > MAX_SHAPE_RANK) return undefined;
  return readInt64s(tensor)?.map((value, index): ShapeElement => ({
    kind: "constant",
    value,
    tensor,
    index,
    readers,
  }));
}

export const withReaders = (size: ShapeElement, readers: number): ShapeElement =>
  size.kind === "constant" ? { ...size, readers: Math.max(size.readers, readers) } : size;

/** @param sizesOf of an input @param first the axes of the first input @returns undefined for what is no tensor of sizes */
export function propagateShapeTensor(
  node: NodeProto,
  sizesOf: (position: number) => readonly ShapeElement[] | undefined,
  first: Axes | undefined,
): readonly ShapeElement[] | undefined {
  const sizes = sizesOf(0);
  switch (node.opType) {
    case "Shape":
      return first
        ?.slice(readIntAttribute(node, "start", 0), readIntAttribute(node, "end", first.length))
        .map((axis) => ({ kind: "axis", axis }));
    case "Identity":
    case "Cast":
    case "Squeeze":
    case "Unsqueeze":
      return sizes;
    case "Gather":
      return sizes && constantValues(sizesOf(1))?.flatMap((at) => sizes.at(at) ?? []);
    case "Slice":
      return (
        sizes &&
        sliceElements(
          sizes,
          constantValues(sizesOf(1)),
          constantValues(sizesOf(2)),
          node.input[4] ? constantValues(sizesOf(4)) : [1],
        )
      );
    case "Concat": {
      const parts = node.input.map((_, position) => sizesOf(position));
      return parts.every((part) => part !== undefined) ? parts.flat() : undefined;
    }
    default:
      return undefined;
  }
}

/** The whole numbers of an `int64` tensor. */
export function readInt64s(tensor: TensorProto): number[] | undefined {
  const whole = elementTypeOf(tensor.dataType) === "int64" ? toTensor(tensor) : undefined;
  return whole && Array.from(whole.data, Number);
}

function sliceElements(
  sizes: readonly ShapeElement[],
  [start]: readonly number[] = [],
  [end]: readonly number[] = [],
  [step]: readonly number[] = [],
): readonly ShapeElement[] | undefined {
  return start === undefined || end === undefined || step !== 1
    ? undefined
    : sizes.slice(start, end);
}

function constantValues(sizes: readonly ShapeElement[] | undefined): number[] | undefined {
  const values = sizes?.flatMap((size) => (size.kind === "constant" ? [size.value] : []));
  return values?.length === sizes?.length ? values : undefined;
}
