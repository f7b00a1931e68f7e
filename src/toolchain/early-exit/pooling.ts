// What an exit head reads of a value within the graph: one row of numbers, whatever the value's shape. Of an image the means
// over a grid of places, and the maximum over all of them; of a text the mean over its tokens, without padding where the graph
// has a mask; a row as it is.

import { makeIntAttribute, makeIntsAttribute } from "../onnx/nodes.ts";
import type { Model } from "../onnx/model-file.ts";
import { type GraphWriter, opsetVersion } from "./graph-writer.ts";

/** The name by which tokenizers call it. */
const ATTENTION_MASK = "attention_mask";

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
    const isMasked =
      shape[1] === -1 && model.graph.input.some(({ name }) => name === ATTENTION_MASK);
    return isMasked
      ? addMaskedMean(model, writer, value)
      : addReduction(model, writer, "ReduceMean", value, "pooled", false);
  }
  const pooled = [
    addGridMeans(writer, value, shape.slice(2), grid),
    writer.addNode("GlobalMaxPool", [value], "maxima"),
  ];
  return writer.addNode(
    "Concat",
    pooled.map((one) => writer.addNode("Flatten", [one], `${one}_row`)),
    "pooled",
    [makeIntAttribute("axis", 1)],
  );
}

/** Parts overlap where the sides do not divide by the grid; an image whose size is not known, or smaller, has the mean over all of it. */
function addGridMeans(
  writer: GraphWriter,
  value: string,
  sides: readonly number[],
  grid: number,
): string {
  if (grid === 1 || sides.some((side) => side < grid))
    return writer.addNode("GlobalAveragePool", [value], "means");
  const strides = sides.map((side) => Math.floor(side / grid));
  const kernel = sides.map((side, axis) => side - (grid - 1) * (strides[axis] ?? 0));
  return writer.addNode("AveragePool", [value], "means", [
    makeIntsAttribute("kernel_shape", kernel),
    makeIntsAttribute("strides", strides),
  ]);
}

/** Of [rows, tokens, width] with a mask [rows, tokens] of 0 and 1, as a product of matrices. */
function addMaskedMean(model: Model, writer: GraphWriter, value: string): string {
  const mask = writer.addNode("Cast", [ATTENTION_MASK], "mask_numbers", [
    makeIntAttribute("to", 1),
  ]);
  const row = writer.addNode(
    "Reshape",
    [mask, writer.addConstant("mask_row_shape", "int64", [3], BigInt64Array.of(0n, 1n, -1n))],
    "mask_row",
  );
  const sum = writer.addNode(
    "Flatten",
    [writer.addNode("MatMul", [row, value], "masked_sum")],
    "masked_sum_row",
  );
  return writer.addNode(
    "Div",
    [sum, addReduction(model, writer, "ReduceSum", mask, "mask_count", true)],
    "pooled",
  );
}

/** Over axis 1; operators take axes as an input from these versions on. */
const AXES_INPUT_OPSET = { ReduceSum: 13, ReduceMean: 18 } as const;

function addReduction(
  model: Model,
  writer: GraphWriter,
  op: keyof typeof AXES_INPUT_OPSET,
  value: string,
  wanted: string,
  keep: boolean,
): string {
  const keepdims = makeIntAttribute("keepdims", keep ? 1 : 0);
  if (opsetVersion(model) >= AXES_INPUT_OPSET[op])
    return writer.addNode(
      op,
      [value, writer.addConstant(`${wanted}_axes`, "int64", [1], BigInt64Array.of(1n))],
      wanted,
      [keepdims],
    );
  return writer.addNode(op, [value], wanted, [makeIntsAttribute("axes", [1]), keepdims]);
}
