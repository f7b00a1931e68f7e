// Shape tensors: follows the sizes that operators such as Reshape read. They are constants, or come
// from other tensors' shapes by a few operators, like the export of `x.view(x.size(0), -1)`.

import { readIntAttribute } from "../onnx/graph-queries.ts";
import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import { toTensor } from "../onnx/tensor-conversion.ts";
import { elementTypeOf } from "../onnx/tensor-data.ts";
import type { Axes, Axis } from "./channel-coupling.ts";

export type ShapeElement =
  | {
      readonly kind: "constant";
      readonly value: number;
      readonly tensor: TensorProto;
      readonly index: number;
      /** Maximum number of readers of any tensor between the constant and this element. */
      readonly readers: number;
    }
  | { readonly kind: "axis"; readonly axis: Axis | undefined };

/** Longer tensors are not shapes. */
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

/**
 * @param sizesOf returns the sizes in an input by its position
 * @param first axes of the first input
 * @returns undefined if the output is not a shape tensor
 */
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
      return sizes && constantValues(sizesOf(1))?.flatMap((index) => sizes.at(index) ?? []);
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

/** Reads an INT64 tensor; undefined for other types. */
export function readInt64s(tensor: TensorProto): number[] | undefined {
  const integers = elementTypeOf(tensor.dataType) === "int64" ? toTensor(tensor) : undefined;
  return integers && Array.from(integers.data, Number);
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
