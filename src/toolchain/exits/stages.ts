// The two halves of a graph that is cut: a first stage that answers by an exit head and gives the value at the cut in 8 bits,
// and the rest, which takes that value and gives what the whole graph gives.

import { onnxErrors } from "../onnx/errors.ts";
import { LOGITS } from "../../cascade/calibration.ts";
import { cut } from "../onnx/cut.ts";
import { type Model, readModel, writeModel } from "../onnx/model-file.ts";
import { makeNode } from "../onnx/nodes.ts";
import type { Quantisation } from "../quantise/scheme.ts";
import { quantisedForm } from "./crossing.ts";
import type { DenseLayer } from "../train/network.ts";
import { freeName, type GraphWriter, opsetOf, tensorInfo, writerOf } from "./graph-parts.ts";
import { addPooling } from "./pooling.ts";
import { joinViews, type ViewedPlace } from "./views.ts";

/** What crosses from one stage to the other. */
export const ACTIVATION = "activation";
/** The first version of the operators with QuantizeLinear. */
const FIRST_OPSET = 10;

/** How a real number of the value is written in 8 bits; in FP32 where undefined. */
export type Crossing = Quantisation | undefined;

export interface ExitHead {
  readonly layers: readonly DenseLayer[];
  /** Parts of an image on a side, whose means it reads. */
  readonly grid: number;
}

/** @returns a graph from the model's inputs to the rows that a head reads at each place: outputs in the places' order @throws not_cuttable */
export function featuresGraph(
  model: Model,
  places: readonly ViewedPlace[],
  grid: number,
): { readonly graph: Uint8Array; readonly outputs: readonly string[] } {
  const copy = copyOf(model, places);
  const writer = writerOf(copy);
  const outputs = places.map(({ value, shape }) => {
    const pooled = addPooling(copy, writer, value, shape, grid);
    if (pooled !== value) copy.graph.valueInfo.push(tensorInfo(pooled, "FP32", [-1, -1]));
    return pooled;
  });
  return { graph: writeModel(cut(copy, { outputs })), outputs };
}

/** From the model's inputs to `logits` and `activation`. @param head that was trained on rows of `featuresGraph` @throws not_cuttable */
export function firstStage(
  model: Model,
  place: ViewedPlace,
  { layers, grid }: ExitHead,
  crossing: Crossing,
): Uint8Array {
  const copy = copyOf(model, [place]);
  const value = [LOGITS, ACTIVATION].reduce(
    (name, wanted) => freeName(copy, wanted, name),
    place.value,
  );
  const writer = writerOf(copy);
  addHead(writer, addPooling(copy, writer, value, place.shape, grid), layers);
  // To quantise again what has just been dequantised trips up ONNX Runtime's removal of such pairs: it leaves a graph that cannot be opened.
  const quantised = crossing && quantisedForm(copy, value, crossing);
  if (crossing !== undefined && quantised === undefined)
    writer.node("QuantizeLinear", [value, ...scaleOf(writer, crossing)], ACTIVATION);
  else writer.node("Identity", [quantised ?? value], ACTIVATION);
  copy.graph.valueInfo.push(
    tensorInfo(LOGITS, "FP32", [-1, layers.at(-1)?.outputs ?? -1]),
    tensorInfo(ACTIVATION, datatypeOf(crossing), place.shape),
  );
  const stage = cut(copy, { outputs: [LOGITS, ACTIVATION] });
  stage.graph.input = model.graph.input; // all that the tier's preprocessor gives, needed here or not
  return writeModel(stage);
}

/** From `activation`, and what the place needs besides, to the model's outputs. @throws not_cuttable */
export function restStage(model: Model, place: ViewedPlace, crossing: Crossing): Uint8Array {
  const { shape } = place;
  const copy = copyOf(model, [place]);
  const rest = cut(copy, {
    inputs: [place.value],
    outputs: copy.graph.output.map(({ name }) => name),
  });
  const value = freeName(rest, ACTIVATION, place.value);
  const writer = writerOf(rest);
  const [op, inputs] =
    crossing === undefined
      ? ["Identity", [ACTIVATION]]
      : ["DequantizeLinear", [ACTIVATION, ...scaleOf(writer, crossing)]];
  rest.graph.input = rest.graph.input.filter(({ name }) => name !== value);
  rest.graph.input.unshift(tensorInfo(ACTIVATION, datatypeOf(crossing), shape));
  rest.graph.node.unshift(makeNode({ name: `make_${value}`, op, inputs, outputs: [value] }));
  return writeModel(rest);
}

function addHead(writer: GraphWriter, row: string, layers: readonly DenseLayer[]): void {
  layers.reduce((input, { inputs, outputs, weights, bias }, position) => {
    const isLast = position === layers.length - 1;
    const parameters = [
      writer.constant(`exit_weights_${position}`, "float", [inputs, outputs], weights),
      writer.constant(`exit_bias_${position}`, "float", [outputs], bias),
    ];
    const result = writer.node(
      "Gemm",
      [input, ...parameters],
      isLast ? LOGITS : `exit_hidden_${position}`,
    );
    return isLast ? result : writer.node("Relu", [result], `exit_units_${position}`);
  }, row);
}

function scaleOf(writer: GraphWriter, { scale, zeroPoint, type }: Quantisation): string[] {
  const zero = type === "uint8" ? Uint8Array.of(zeroPoint) : Int8Array.of(zeroPoint);
  return [
    writer.constant("activation_scale", "float", [], Float32Array.of(scale)),
    writer.constant("activation_zero_point", type, [], zero),
  ];
}

const datatypeOf = (crossing: Crossing) =>
  crossing === undefined ? "FP32" : crossing.type === "uint8" ? "UINT8" : "INT8";

/** To be changed; at the places, views are side by side. */
function copyOf(model: Model, places: readonly ViewedPlace[]): Model {
  const refused = (reason: string) => onnxErrors.notCuttable(places[0]?.value ?? "", reason);
  if (opsetOf(model) < FIRST_OPSET)
    throw refused(`its operators are of version ${opsetOf(model)}, and 8 bits take ${FIRST_OPSET}`);
  if (model.graph.output.some(({ name }) => name === ACTIVATION))
    throw refused(`the graph has an output that is called ${ACTIVATION} itself`);
  const copy = readModel(writeModel(model));
  for (const place of places) joinViews(copy, place);
  return copy;
}
