// The two halves of a graph that is cut: a first stage that answers by an exit head and gives the value at the cut in 8 bits,
// and the rest, which takes that value and gives what the whole graph gives.

import { onnxErrors } from "../onnx/errors.ts";
import { LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { extractSubgraph } from "../onnx/extract-subgraph.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { makeNode } from "../onnx/nodes.ts";
import type { QuantizationParams } from "../quantize/quantization-scheme.ts";
import { findQuantizedValue } from "./activation-quantization.ts";
import type { DenseLayer } from "../train/dense-layers.ts";
import {
  releaseName,
  type GraphWriter,
  opsetVersion,
  createValueInfo,
  createGraphWriter,
} from "./graph-writer.ts";
import { addPooling } from "./pooling.ts";
import { joinViews, type CutTensor } from "./views.ts";

/** What crosses from one stage to the other. */
export const ACTIVATION = "activation";
/** The first version of the operators with QuantizeLinear. */
const MIN_QUANTIZE_OPSET = 10;

/** How a real number of the value is written in 8 bits; in FP32 where undefined. */
export type ActivationQuantization = QuantizationParams | undefined;

export interface ExitHead {
  readonly layers: readonly DenseLayer[];
  /** Parts of an image on a side, whose means it reads. */
  readonly grid: number;
}

/** @returns a graph from the model's inputs to the rows that a head reads at each place: outputs in the places' order @throws not_cuttable */
export function buildFeatureGraph(
  model: Model,
  places: readonly CutTensor[],
  grid: number,
): { readonly graph: Uint8Array; readonly outputs: readonly string[] } {
  const copy = copyWithJoinedViews(model, places);
  const writer = createGraphWriter(copy);
  const outputs = places.map(({ value, shape }) => {
    const pooled = addPooling(copy, writer, value, shape, grid);
    if (pooled !== value) copy.graph.valueInfo.push(createValueInfo(pooled, "FP32", [-1, -1]));
    return pooled;
  });
  return { graph: serializeModel(extractSubgraph(copy, { outputs })), outputs };
}

/** From the model's inputs to `logits` and `activation`. @param head that was trained on rows of `buildFeatureGraph` @throws not_cuttable */
export function buildFirstStage(
  model: Model,
  place: CutTensor,
  { layers, grid }: ExitHead,
  crossing: ActivationQuantization,
): Uint8Array {
  const copy = copyWithJoinedViews(model, [place]);
  const value = [LOGITS_OUTPUT, ACTIVATION].reduce(
    (name, wanted) => releaseName(copy, wanted, name),
    place.value,
  );
  const writer = createGraphWriter(copy);
  addHead(writer, addPooling(copy, writer, value, place.shape, grid), layers);
  // To quantise again what has just been dequantised trips up ONNX Runtime's removal of such pairs: it leaves a graph that cannot be opened.
  const quantised = crossing && findQuantizedValue(copy, value, crossing);
  if (crossing !== undefined && quantised === undefined)
    writer.addNode("QuantizeLinear", [value, ...addScale(writer, crossing)], ACTIVATION);
  else writer.addNode("Identity", [quantised ?? value], ACTIVATION);
  copy.graph.valueInfo.push(
    createValueInfo(LOGITS_OUTPUT, "FP32", [-1, layers.at(-1)?.outputs ?? -1]),
    createValueInfo(ACTIVATION, quantizedDatatype(crossing), place.shape),
  );
  const stage = extractSubgraph(copy, { outputs: [LOGITS_OUTPUT, ACTIVATION] });
  stage.graph.input = model.graph.input; // all that the tier's preprocessor gives, needed here or not
  return serializeModel(stage);
}

/** From `activation`, and what the place needs besides, to the model's outputs. @throws not_cuttable */
export function buildSecondStage(
  model: Model,
  place: CutTensor,
  crossing: ActivationQuantization,
): Uint8Array {
  const { shape } = place;
  const copy = copyWithJoinedViews(model, [place]);
  const rest = extractSubgraph(copy, {
    inputs: [place.value],
    outputs: copy.graph.output.map(({ name }) => name),
  });
  const value = releaseName(rest, ACTIVATION, place.value);
  const writer = createGraphWriter(rest);
  const [op, inputs] =
    crossing === undefined
      ? ["Identity", [ACTIVATION]]
      : ["DequantizeLinear", [ACTIVATION, ...addScale(writer, crossing)]];
  rest.graph.input = rest.graph.input.filter(({ name }) => name !== value);
  rest.graph.input.unshift(createValueInfo(ACTIVATION, quantizedDatatype(crossing), shape));
  rest.graph.node.unshift(makeNode({ name: `make_${value}`, op, inputs, outputs: [value] }));
  return serializeModel(rest);
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

const quantizedDatatype = (crossing: ActivationQuantization) =>
  crossing === undefined ? "FP32" : crossing.type === "uint8" ? "UINT8" : "INT8";

/** To be changed; at the places, views are side by side. */
function copyWithJoinedViews(model: Model, places: readonly CutTensor[]): Model {
  const refused = (reason: string) => onnxErrors.notCuttable(places[0]?.value ?? "", reason);
  if (opsetVersion(model) < MIN_QUANTIZE_OPSET)
    throw refused(
      `its operators are of version ${opsetVersion(model)}, and 8 bits take ${MIN_QUANTIZE_OPSET}`,
    );
  if (model.graph.output.some(({ name }) => name === ACTIVATION))
    throw refused(`the graph has an output that is called ${ACTIVATION} itself`);
  const copy = parseModel(serializeModel(model));
  for (const place of places) joinViews(copy, place);
  return copy;
}
