// QLinearConv and QLinearMatMul written out: the operator on real numbers, between DQ and Q (dequantize.ts).

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

/** Undefined for scales that are no constants, or by row; and where the bias, which is to become a constant, is none. */
function expandNode(
  table: ValueTable,
  node: NodeProto,
  made: Value,
  names: UniqueNames,
): NodeProto[] | undefined {
  const [, xSteps, , weights, wSteps, , ySteps] = table.inputsOf(node);
  const byColumn = readConstantTensor(weights)?.dims.length === 2; // as DQ has it
  const [
    x = "",
    xScale = "",
    xZero = "",
    w = "",
    wScale = "",
    wZero = "",
    yScale = "",
    yZero = "",
    bias = "",
  ] = node.input;
  const isConv = isOnnxOp(node, "QLinearConv");
  const widths = [xSteps, wSteps, ySteps].map((steps) => readFloatConstant(steps)?.length);
  if (
    widths[0] !== 1 ||
    widths[2] !== 1 ||
    widths[1] === undefined ||
    (widths[1] > 1 && !isConv && !byColumn)
  )
    return undefined;
  const real = (name: string) => names.reserve(`${name}_real`);
  const [realX, realW, realY] = [real(x), real(w), real(made.name)];
  const biasName = bias === "" ? [] : [addDequantizedBias(table, node, made, real(bias))];
  if (biasName.includes(undefined)) return undefined;
  // Weights of a convolution have a scale for each output channel, which comes first.
  const axis = isConv ? [makeIntAttribute("axis", 0)] : [];
  const named = (name: string) => names.reserve(`${node.name || made.name}_${name}`);
  return [
    makeNode({
      name: named("x"),
      op: "DequantizeLinear",
      inputs: [x, xScale, xZero],
      outputs: [realX],
    }),
    makeNode({
      name: named("w"),
      op: "DequantizeLinear",
      inputs: [w, wScale, wZero],
      outputs: [realW],
      attributes: axis,
    }),
    makeNode({
      name: named("real"),
      op: isConv ? "Conv" : "MatMul",
      inputs: [realX, realW, ...biasName.filter((name) => name !== undefined)],
      outputs: [realY],
      attributes: node.attribute,
    }),
    makeNode({
      name: named("y"),
      op: "QuantizeLinear",
      inputs: [realY, yScale, yZero],
      outputs: [made.name],
    }),
  ];
}

/** The bias is INT32, in steps of the product of both scales. @returns its name as a constant of real numbers */
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
