// Expands QLinearConv and QLinearMatMul into the operator on real numbers, between DQ and Q
// (dequantize.ts).

import { readFloatConstant, readConstantTensor } from "../onnx/constants.ts";
import { UniqueNames, NodeChanges } from "../onnx/graph-edits.ts";
import type { Model } from "../onnx/model-file.ts";
import { makeIntAttribute, isOnnxOp, makeNode } from "../onnx/nodes.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import { readIntegers, makeTensor } from "../onnx/tensor-data.ts";
import { type Value, type ValueTable, buildValueTable } from "../onnx/value-table.ts";

/** Changes the model. */
export function expandQLinear(model: Model): void {
  const table = buildValueTable(model);
  const names = new UniqueNames(model);
  const changes = new NodeChanges();
  for (const value of table.values) {
    if (
      value.origin.kind !== "node" ||
      !isOnnxOp(value.origin.node, "QLinearConv", "QLinearMatMul")
    )
      continue;
    const nodes = expandNode(table, value.origin.node, value, names);
    if (nodes === undefined) continue;
    changes.insertAfter(value.origin.node, ...nodes);
    changes.remove(value.origin.node);
  }
  changes.apply(model);
}

/** Returns undefined if scales are not constant or vary by row, or if the bias is not constant. */
function expandNode(
  table: ValueTable,
  node: NodeProto,
  output: Value,
  names: UniqueNames,
): NodeProto[] | undefined {
  const [
    x = "",
    xScale = "",
    xZeroPoint = "",
    w = "",
    wScale = "",
    wZeroPoint = "",
    yScale = "",
    yZeroPoint = "",
    bias = "",
  ] = node.input;
  const isConv = isOnnxOp(node, "QLinearConv");
  if (!hasSupportedScales(table, node)) return undefined;
  const reserveReal = (name: string) => names.reserve(`${name}_real`);
  const [realX, realW, realY] = [reserveReal(x), reserveReal(w), reserveReal(output.name)];
  const biasName = bias === "" ? [] : [addDequantizedBias(table, node, output, reserveReal(bias))];
  if (biasName.includes(undefined)) return undefined;
  // Convolution weights have one scale per output channel, which is the first dimension.
  const axis = isConv ? [makeIntAttribute("axis", 0)] : [];
  const reserveNodeName = (suffix: string) =>
    names.reserve(`${node.name || output.name}_${suffix}`);
  const dequantize = (suffix: string, inputs: readonly string[], result: string) => ({
    name: reserveNodeName(suffix),
    op: "DequantizeLinear",
    inputs,
    outputs: [result],
  });
  return [
    makeNode(dequantize("x", [x, xScale, xZeroPoint], realX)),
    makeNode({ ...dequantize("w", [w, wScale, wZeroPoint], realW), attributes: axis }),
    makeNode({
      name: reserveNodeName("real"),
      op: isConv ? "Conv" : "MatMul",
      inputs: [realX, realW, ...biasName.filter((name) => name !== undefined)],
      outputs: [realY],
      attributes: node.attribute,
    }),
    makeNode({
      name: reserveNodeName("y"),
      op: "QuantizeLinear",
      inputs: [realY, yScale, yZeroPoint],
      outputs: [output.name],
    }),
  ];
}

function hasSupportedScales(table: ValueTable, node: NodeProto): boolean {
  const [, xScale, , weights, wScale, , yScale] = table.inputsOf(node);
  const [xCount, wCount, yCount] = [xScale, wScale, yScale].map(
    (scale) => readFloatConstant(scale)?.length,
  );
  if (xCount !== 1 || yCount !== 1 || wCount === undefined) return false;
  // DQ applies the scales of a matrix by column, like QLinearMatMul.
  const hasWeightMatrix = readConstantTensor(weights)?.dims.length === 2;
  return wCount === 1 || isOnnxOp(node, "QLinearConv") || hasWeightMatrix;
}

/**
 * The bias is INT32, in steps of the product of both scales.
 * @returns its name as a constant of real numbers
 */
function addDequantizedBias(
  table: ValueTable,
  node: NodeProto,
  { graph }: Value,
  name: string,
): string | undefined {
  const [, xScale, , , wScale, , , , bias] = table.inputsOf(node);
  const tensor = readConstantTensor(bias);
  const [values, [step], steps] = [
    tensor && readIntegers(tensor),
    readFloatConstant(xScale) ?? [],
    readFloatConstant(wScale),
  ];
  if (tensor === undefined || values === undefined || step === undefined || steps === undefined)
    return undefined;
  const data = Float32Array.from(
    values,
    (value, channel) => value * step * (steps[steps.length === 1 ? 0 : channel] ?? 0),
  );
  graph.initializer.push(makeTensor(name, "float", tensor.dims, data));
  return name;
}
