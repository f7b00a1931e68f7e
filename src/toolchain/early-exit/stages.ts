// Stages: builds the two halves of a cut graph. The first stage answers with an exit head and returns the value at the cut in
// 8 bits. The second stage takes that value and returns the whole graph's outputs.

import { LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { onnxErrors } from "../onnx/errors.ts";
import { extractSubgraph } from "../onnx/extract-subgraph.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { makeNode } from "../onnx/nodes.ts";
import type { QuantizationParams } from "../quantize/quantization-scheme.ts";
import type { DenseLayer } from "../train/dense-layers.ts";
import { findQuantizedValue } from "./activation-quantization.ts";
import {
  releaseName,
  type GraphWriter,
  opsetVersion,
  createValueInfo,
  createGraphWriter,
} from "./graph-writer.ts";
import { addPooling } from "./pooling.ts";
import { joinViews, type CutTensor } from "./views.ts";

/** Name of the tensor that crosses from the first stage to the second. */
export const ACTIVATION = "activation";
/** First opset version with QuantizeLinear. */
const MIN_QUANTIZE_OPSET = 10;

/** Quantization of the value that crosses the cut; undefined for FP32. */
export type ActivationQuantization = QuantizationParams | undefined;

export interface ExitHead {
  readonly layers: readonly DenseLayer[];
  /** Number of image regions per side whose means the head reads. */
  readonly grid: number;
}

/**
 * Builds a graph from the model's inputs to the rows that a head reads at each cut.
 * @returns the graph and the names of its outputs, in the order of the cuts
 * @throws not_cuttable
 */
export function buildFeatureGraph(
  model: Model,
  cuts: readonly CutTensor[],
  grid: number,
): { readonly graph: Uint8Array; readonly outputs: readonly string[] } {
  const copy = copyWithJoinedViews(model, cuts);
  const writer = createGraphWriter(copy);
  const outputs = cuts.map(({ value, shape }) => {
    const pooled = addPooling(copy, writer, value, shape, grid);
    if (pooled !== value) copy.graph.valueInfo.push(createValueInfo(pooled, "FP32", [-1, -1]));
    return pooled;
  });
  return { graph: serializeModel(extractSubgraph(copy, { outputs })), outputs };
}

/**
 * Builds the graph from the model's inputs to `logits` and `activation`.
 * @param head exit head, trained on rows of `buildFeatureGraph`
 * @throws not_cuttable
 */
export function buildFirstStage(
  model: Model,
  cut: CutTensor,
  head: ExitHead,
  quantization: ActivationQuantization,
): Uint8Array {
  const { layers, grid } = head;
  const copy = copyWithJoinedViews(model, [cut]);
  const value = [LOGITS_OUTPUT, ACTIVATION].reduce(
    (currentName, releasedName) => releaseName(copy, releasedName, currentName),
    cut.value,
  );
  const writer = createGraphWriter(copy);
  addHead(writer, addPooling(copy, writer, value, cut.shape, grid), layers);
  // A dequantized value must not be quantized again: ONNX Runtime would remove the pair and fail to open the graph.
  const quantizedValue = quantization && findQuantizedValue(copy, value, quantization);
  if (quantization !== undefined && quantizedValue === undefined)
    writer.addNode("QuantizeLinear", [value, ...addScale(writer, quantization)], ACTIVATION);
  else writer.addNode("Identity", [quantizedValue ?? value], ACTIVATION);
  copy.graph.valueInfo.push(
    createValueInfo(LOGITS_OUTPUT, "FP32", [-1, layers.at(-1)?.outputs ?? -1]),
    createValueInfo(ACTIVATION, quantizedDatatype(quantization), cut.shape),
  );
  const stage = extractSubgraph(copy, { outputs: [LOGITS_OUTPUT, ACTIVATION] });
  // The stage keeps unused inputs, because the tier's preprocessor gives all of them.
  stage.graph.input = model.graph.input;
  return serializeModel(stage);
}

/** Builds the graph from `activation`, and the further inputs that it needs, to the model's outputs. @throws not_cuttable */
export function buildSecondStage(
  model: Model,
  cut: CutTensor,
  quantization: ActivationQuantization,
): Uint8Array {
  const copy = copyWithJoinedViews(model, [cut]);
  const stage = extractSubgraph(copy, {
    inputs: [cut.value],
    outputs: copy.graph.output.map(({ name }) => name),
  });
  const value = releaseName(stage, ACTIVATION, cut.value);
  const writer = createGraphWriter(stage);
  const [op, inputs] =
    quantization === undefined
      ? ["Identity", [ACTIVATION]]
      : ["DequantizeLinear", [ACTIVATION, ...addScale(writer, quantization)]];
  stage.graph.input = stage.graph.input.filter(({ name }) => name !== value);
  stage.graph.input.unshift(
    createValueInfo(ACTIVATION, quantizedDatatype(quantization), cut.shape),
  );
  stage.graph.node.unshift(makeNode({ name: `make_${value}`, op, inputs, outputs: [value] }));
  return serializeModel(stage);
}

function addHead(writer: GraphWriter, row: string, layers: readonly DenseLayer[]): void {
  layers.reduce((input, { inputs, outputs, weights, bias }, position) => {
    const isLast = position === layers.length - 1;
    const parameters = [
      writer.addConstant(`exit_weights_${position}`, "float", [inputs, outputs], weights),
      writer.addConstant(`exit_bias_${position}`, "float", [outputs], bias),
    ];
    const result = writer.addNode(
      "Gemm",
      [input, ...parameters],
      isLast ? LOGITS_OUTPUT : `exit_hidden_${position}`,
    );
    return isLast ? result : writer.addNode("Relu", [result], `exit_units_${position}`);
  }, row);
}

function addScale(writer: GraphWriter, { scale, zeroPoint, type }: QuantizationParams): string[] {
  const zero = type === "uint8" ? Uint8Array.of(zeroPoint) : Int8Array.of(zeroPoint);
  return [
    writer.addConstant("activation_scale", "float", [], Float32Array.of(scale)),
    writer.addConstant("activation_zero_point", type, [], zero),
  ];
}

const quantizedDatatype = (quantization: ActivationQuantization) =>
  quantization === undefined ? "FP32" : quantization.type === "uint8" ? "UINT8" : "INT8";

/** Returns a copy in which the values at the cuts have their views side by side. */
function copyWithJoinedViews(model: Model, cuts: readonly CutTensor[]): Model {
  const notCuttable = (reason: string) => onnxErrors.notCuttable(cuts[0]?.value ?? "", reason);
  if (opsetVersion(model) < MIN_QUANTIZE_OPSET)
    throw notCuttable(
      `the graph uses opset ${opsetVersion(model)}, and quantization needs ${MIN_QUANTIZE_OPSET} or later`,
    );
  if (model.graph.output.some(({ name }) => name === ACTIVATION))
    throw notCuttable(`the graph has an output named ${ACTIVATION} already`);
  const copy = parseModel(serializeModel(model));
  for (const cut of cuts) joinViews(copy, cut);
  return copy;
}
