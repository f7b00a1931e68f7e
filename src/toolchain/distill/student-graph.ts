// Builds the FP32 ONNX graphs of students, in a form that src/toolchain/quantize can quantize
// entirely.

import type { Model } from "../onnx/model-file.ts";
import { makeIntAttribute } from "../onnx/nodes.ts";
import type { DenseLayer } from "../train/dense-layers.ts";
import type { Standardization } from "../train/standardize.ts";
import { GraphBuilder, type TensorInfo } from "./graph-builder.ts";

/** Names of the layer inputs, whose ranges quantization needs. */
export const layerInputNames = (layers: readonly DenseLayer[]): string[] =>
  layers.map((_, position) => (position === 0 ? "features" : `hidden_${position}`));

/**
 * Builds a graph from `ids` INT32 [batch, features] to `output` FP32 [batch, outputs].
 * @param table [rows, width]; row 0 is padding and contains zeros
 */
export function buildEmbeddingBagGraph(
  table: Float32Array,
  width: number,
  layers: readonly DenseLayer[],
  output: string,
): Model {
  const graph = new GraphBuilder("student");
  const axis = graph.addConstant("features_axis", "int64", [1], BigInt64Array.of(1n));
  const rows = graph.addNode("rows", "Gather", [
    graph.addConstant("table", "float", [table.length / width, width], table),
    "ids",
  ]);
  const total = graph.addNode(
    "total",
    "ReduceSum",
    [rows, axis],
    [makeIntAttribute("keepdims", 0)],
  );
  // Ids of features start at 1, so that the minimum of an id and 1 counts features without padding.
  const present = graph.addNode("present", "Min", [
    "ids",
    graph.addConstant("one", "int32", [], Int32Array.of(1)),
  ]);
  const count = graph.addNode(
    "count",
    "Cast",
    [graph.addNode("count_int32", "ReduceSum", [present, axis], [makeIntAttribute("keepdims", 1)])],
    [makeIntAttribute("to", 1)],
  );
  const root = graph.addNode("root", "Sqrt", [
    graph.addNode("count_from_one", "Max", [
      count,
      graph.addConstant("one_fp32", "float", [], Float32Array.of(1)),
    ]),
  ]);
  const features = graph.addNode("features", "Div", [total, root]);
  addDenseLayers(graph, features, layers, output);
  return graph.build(
    [{ name: "ids", datatype: "INT32", shape: ["batch", "features"] }],
    [outputPort(layers, output)],
  );
}

/**
 * Builds a graph from `input` FP32 [batch, columns] to `output` FP32 [batch, outputs]. It
 * standardizes the columns.
 */
export function buildTabularGraph(
  { mean, stdDev }: Standardization,
  layers: readonly DenseLayer[],
  input: string,
  output: string,
): Model {
  const graph = new GraphBuilder("student");
  const centred = graph.addNode("centred", "Sub", [
    input,
    graph.addConstant("mean", "float", [mean.length], mean),
  ]);
  const features = graph.addNode("features", "Mul", [
    centred,
    graph.addConstant(
      "by_deviation",
      "float",
      [stdDev.length],
      stdDev.map((value) => 1 / value),
    ),
  ]);
  addDenseLayers(graph, features, layers, output);
  return graph.build(
    [{ name: input, datatype: "FP32", shape: ["batch", mean.length] }],
    [outputPort(layers, output)],
  );
}

const outputPort = (layers: readonly DenseLayer[], name: string): TensorInfo => ({
  name,
  datatype: "FP32",
  shape: ["batch", layers.at(-1)?.outputs ?? 0],
});

function addDenseLayers(
  graph: GraphBuilder,
  features: string,
  layers: readonly DenseLayer[],
  output: string,
): void {
  let values = features;
  layers.forEach(({ inputs, outputs, weights, bias }, position) => {
    const isLast = position === layers.length - 1;
    const named = (role: string) => `layer_${position + 1}_${role}`;
    const sums = graph.addNode(isLast ? output : named("sums"), "Gemm", [
      values,
      graph.addConstant(named("weights"), "float", [inputs, outputs], weights),
      graph.addConstant(named("bias"), "float", [outputs], bias),
    ]);
    values = isLast ? sums : graph.addNode(`hidden_${position + 1}`, "Relu", [sums]);
  });
}
