// What an exit head reads of a value within the graph: one row of numbers, whatever the value's shape. Of an image the means
// over a grid of places, and the maximum over all of them; of a text the mean over its tokens, without padding where the graph
// has a mask; a row as it is.

import { intAttribute, intsAttribute } from "../onnx/nodes.ts";
import type { Model } from "../onnx/model-file.ts";
import { type GraphWriter, opsetOf } from "./graph-parts.ts";

/** The name by which tokenizers call it. */
const MASK = "attention_mask";

/** @param grid parts that an image has on a side: 1 takes the mean over all of it @param shape of the value, with 2 to 4 dimensions; -1 for tokens, of which texts have more or fewer @returns the name of the row: FP32 [rows, width] */
export function addPooling(
  model: Model,
  writer: GraphWriter,
  value: string,
  shape: readonly number[],
  grid: number,
): string {
  if (shape.length === 2) return value;
  if (shape.length === 3) {
    const isMasked = shape[1] === -1 && model.graph.input.some(({ name }) => name === MASK);
    return isMasked
      ? maskedMean(model, writer, value)
      : reduced(model, writer, "ReduceMean", value, "pooled", false);
  }
  const pooled = [
    meansOf(writer, value, shape.slice(2), grid),
    writer.node("GlobalMaxPool", [value], "maxima"),
  ];
  return writer.node(
    "Concat",
    pooled.map((one) => writer.node("Flatten", [one], `${one}_row`)),
    "pooled",
    [intAttribute("axis", 1)],
  );
}

/** Parts overlap where the sides do not divide by the grid; an image whose size is not known, or smaller, has the mean over all of it. */
function meansOf(
  writer: GraphWriter,
  value: string,
  sides: readonly number[],
  grid: number,
): string {
  if (grid === 1 || sides.some((side) => side < grid))
    return writer.node("GlobalAveragePool", [value], "means");
  const strides = sides.map((side) => Math.floor(side / grid));
  const kernel = sides.map((side, axis) => side - (grid - 1) * (strides[axis] ?? 0));
  return writer.node("AveragePool", [value], "means", [
    intsAttribute("kernel_shape", kernel),
    intsAttribute("strides", strides),
  ]);
}

/** Of [rows, tokens, width] with a mask [rows, tokens] of 0 and 1, as a product of matrices. */
function maskedMean(model: Model, writer: GraphWriter, value: string): string {
  const mask = writer.node("Cast", [MASK], "mask_numbers", [intAttribute("to", 1)]);
  const row = writer.node(
    "Reshape",
    [mask, writer.constant("mask_row_shape", "int64", [3], BigInt64Array.of(0n, 1n, -1n))],
    "mask_row",
  );
  const sum = writer.node(
    "Flatten",
    [writer.node("MatMul", [row, value], "masked_sum")],
    "masked_sum_row",
  );
  return writer.node(
    "Div",
    [sum, reduced(model, writer, "ReduceSum", mask, "mask_count", true)],
    "pooled",
  );
}

/** Over axis 1; operators take axes as an input from these versions on. */
const AXES_AS_INPUT = { ReduceSum: 13, ReduceMean: 18 } as const;

function reduced(
  model: Model,
  writer: GraphWriter,
  op: keyof typeof AXES_AS_INPUT,
  value: string,
  wanted: string,
  keep: boolean,
): string {
  const keepdims = intAttribute("keepdims", keep ? 1 : 0);
  if (opsetOf(model) >= AXES_AS_INPUT[op])
    return writer.node(
      op,
      [value, writer.constant(`${wanted}_axes`, "int64", [1], BigInt64Array.of(1n))],
      wanted,
      [keepdims],
    );
  return writer.node(op, [value], wanted, [intsAttribute("axes", [1]), keepdims]);
}
