// Students as ONNX graphs in FP32, in a form that src/toolchain/quantise takes whole.

import { intAttribute } from "../onnx/nodes.ts";
import type { Model } from "../onnx/model-file.ts";
import type { DenseLayer } from "../train/network.ts";
import type { Standard } from "../train/standardise.ts";
import { GraphBuilder, type Port } from "./graph-builder.ts";

/** Names of the values whose ranges quantisation needs: each layer's input. */
export const layerInputs = (layers: readonly DenseLayer[]): string[] =>
  layers.map((_, position) => (position === 0 ? "features" : `hidden_${position}`));

/** @param table [rows, width]; row 0 is padding's, zeros: `ids` INT32 [batch, features] to `output` FP32 [batch, outputs] */
export function bagGraph(
  table: Float32Array,
  width: number,
  layers: readonly DenseLayer[],
  output: string,
): Model {
  const graph = new GraphBuilder("student");
  const axis = graph.constant("features_axis", "int64", [1], BigInt64Array.of(1n));
  const rows = graph.add("rows", "Gather", [
    graph.constant("table", "float", [table.length / width, width], table),
    "ids",
  ]);
  const total = graph.add("total", "ReduceSum", [rows, axis], [intAttribute("keepdims", 0)]);
  // Padding counts for nothing: ids are from 1 on.
  const present = graph.add("present", "Min", [
    "ids",
    graph.constant("one", "int32", [], Int32Array.of(1)),
  ]);
  const count = graph.add(
    "count",
    "Cast",
    [graph.add("count_int32", "ReduceSum", [present, axis], [intAttribute("keepdims", 1)])],
    [intAttribute("to", 1)],
  );
  const root = graph.add("root", "Sqrt", [
    graph.add("count_from_one", "Max", [
      count,
      graph.constant("one_fp32", "float", [], Float32Array.of(1)),
    ]),
  ]);
  const features = graph.add("features", "Div", [total, root]);
  addLayers(graph, features, layers, output);
  return graph.model(
    [{ name: "ids", datatype: "INT32", shape: ["batch", "features"] }],
    [outputPort(layers, output)],
  );
}

/** `input` FP32 [batch, columns] to `output` FP32 [batch, outputs]; the columns are standardised in the graph. */
export function tabularGraph(
  { mean, deviation }: Standard,
  layers: readonly DenseLayer[],
  input: string,
  output: string,
): Model {
  const graph = new GraphBuilder("student");
  const centred = graph.add("centred", "Sub", [
    input,
    graph.constant("mean", "float", [mean.length], mean),
  ]);
  const features = graph.add("features", "Mul", [
    centred,
    graph.constant(
      "by_deviation",
      "float",
      [deviation.length],
      deviation.map((one) => 1 / one),
    ),
  ]);
  addLayers(graph, features, layers, output);
  return graph.model(
    [{ name: input, datatype: "FP32", shape: ["batch", mean.length] }],
    [outputPort(layers, output)],
  );
}

const outputPort = (layers: readonly DenseLayer[], name: string): Port => ({
  name,
  datatype: "FP32",
  shape: ["batch", layers.at(-1)?.outputs ?? 0],
});

function addLayers(
  graph: GraphBuilder,
  features: string,
  layers: readonly DenseLayer[],
  output: string,
): void {
  let values = features;
  layers.forEach(({ inputs, outputs, weights, bias }, position) => {
    const isLast = position === layers.length - 1;
    const named = (what: string) => `layer_${position + 1}_${what}`;
    const sums = graph.add(isLast ? output : named("sums"), "Gemm", [
      values,
      graph.constant(named("weights"), "float", [inputs, outputs], weights),
      graph.constant(named("bias"), "float", [outputs], bias),
    ]);
    values = isLast ? sums : graph.add(`hidden_${position + 1}`, "Relu", [sums]);
  });
}
