// Tensors of sizes, as Reshape takes them: constants, or made of other tensors' shapes by a few operators, as exporters
// write `x.view(x.size(0), -1)`.

import { intOf } from "../onnx/find.ts";
import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import { toTensor } from "../onnx/tensor-values.ts";
import { elementTypeOf } from "../onnx/tensors.ts";
import type { Axes, Axis } from "./coupling.ts";

export type Size =
  /** `readers`: the most that any tensor has on the way from the constant to here. */
  | {
      readonly kind: "number";
      readonly value: number;
      readonly tensor: TensorProto;
      readonly index: number;
      readonly readers: number;
    }
  | { readonly kind: "of axis"; readonly axis: Axis | undefined };

/** Longer ones are no shapes. */
const MOST_SIZES = 16;

export function sizesOfConstant(tensor: TensorProto, readers: number): readonly Size[] | undefined {
  if (tensor.dims.length > 1 || Number(tensor.dims[0] ?? 1n) > MOST_SIZES) return undefined;
  return int64sOf(tensor)?.map((value, index): Size => ({
    kind: "number",
    value,
    tensor,
    index,
    readers,
  }));
}

export const readBy = (size: Size, readers: number): Size =>
  size.kind === "number" ? { ...size, readers: Math.max(size.readers, readers) } : size;

/** @param sizesOf of an input @param first the axes of the first input @returns undefined for what is no tensor of sizes */
export function sizesMadeBy(
  node: NodeProto,
  sizesOf: (position: number) => readonly Size[] | undefined,
  first: Axes | undefined,
): readonly Size[] | undefined {
  const sizes = sizesOf(0);
  switch (node.opType) {
    case "Shape":
      return first
        ?.slice(intOf(node, "start", 0), intOf(node, "end", first.length))
        .map((axis) => ({ kind: "of axis", axis }));
    case "Identity":
    case "Cast":
    case "Squeeze":
    case "Unsqueeze":
      return sizes;
    case "Gather":
      return sizes && numbers(sizesOf(1))?.flatMap((at) => sizes.at(at) ?? []);
    case "Slice":
      return (
        sizes &&
        sliced(
          sizes,
          numbers(sizesOf(1)),
          numbers(sizesOf(2)),
          node.input[4] ? numbers(sizesOf(4)) : [1],
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
export function int64sOf(tensor: TensorProto): number[] | undefined {
  const whole = elementTypeOf(tensor.dataType) === "int64" ? toTensor(tensor) : undefined;
  return whole && Array.from(whole.data, Number);
}

function sliced(
  sizes: readonly Size[],
  [start]: readonly number[] = [],
  [end]: readonly number[] = [],
  [step]: readonly number[] = [],
): readonly Size[] | undefined {
  return start === undefined || end === undefined || step !== 1
    ? undefined
    : sizes.slice(start, end);
}

function numbers(sizes: readonly Size[] | undefined): number[] | undefined {
  const values = sizes?.flatMap((size) => (size.kind === "number" ? [size.value] : []));
  return values?.length === sizes?.length ? values : undefined;
}
