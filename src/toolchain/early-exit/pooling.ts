// Pooling: reduces a value within the graph to one row of numbers, which an exit head reads. An image is reduced to the means
// over a grid of regions and the maximum over all of it. A text is reduced to the mean over its tokens, without padding if the
// graph has a mask. A row stays unchanged.

import type { Model } from "../onnx/model-file.ts";
import { makeIntAttribute, makeIntsAttribute } from "../onnx/nodes.ts";
import { type GraphWriter, opsetVersion } from "./graph-writer.ts";

/** Input name that tokenizers use for the mask. */
const ATTENTION_MASK = "attention_mask";

/**
 * @param shape shape of the value, with 2 to 4 dimensions; -1 for the tokens of a text, whose number varies
 * @param grid number of image regions per side; 1 takes the mean over the whole image
 * @returns the name of the row: FP32 [rows, width]
 */
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
    pooled.map((name) => writer.addNode("Flatten", [name], `${name}_row`)),
    "pooled",
    [makeIntAttribute("axis", 1)],
  );
}

/**
 * Grid regions overlap if the sides are not divisible by the grid. An image of unknown size, or smaller than the grid, has
 * the mean over all of it.
 */
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

/** Computes the mean of [rows, tokens, width] with a mask [rows, tokens] of 0 and 1, as a matrix product. */
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

/** Opset versions from which the operators take their axes as an input. */
const AXES_INPUT_OPSET = { ReduceSum: 13, ReduceMean: 18 } as const;

/** Reduces over axis 1. */
function addReduction(
  model: Model,
  writer: GraphWriter,
  op: keyof typeof AXES_INPUT_OPSET,
  value: string,
  preferredName: string,
  keepsAxis: boolean,
): string {
  const keepdims = makeIntAttribute("keepdims", keepsAxis ? 1 : 0);
  if (opsetVersion(model) >= AXES_INPUT_OPSET[op])
    return writer.addNode(
      op,
      [value, writer.addConstant(`${preferredName}_axes`, "int64", [1], BigInt64Array.of(1n))],
      preferredName,
      [keepdims],
    );
  return writer.addNode(op, [value], preferredName, [makeIntsAttribute("axes", [1]), keepdims]);
}
