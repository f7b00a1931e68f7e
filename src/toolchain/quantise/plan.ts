// What of a graph is computed in integers by static quantisation, and which activations become integers for that.
//
// The form is QDQ: every activation that integers are computed from, or rounded to, goes through QuantizeLinear (Q) and
// DequantizeLinear (DQ). ONNX Runtime makes an integer operator of DQ -> operator -> Q
// (onnxruntime/core/optimizer/qdq_transformer). A ReLU or a Clip between operator and Q is dropped where Q saturates as it
// does, so the activation before it is not rounded.

import { constantOf, constantTensorOf } from "../onnx/constants.ts";
import type { Model } from "../onnx/model-file.ts";
import { isOnnxNode } from "../onnx/nodes.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import { type Value, type ValueTable, valuesOf } from "../onnx/values.ts";
import {
  type Embedding,
  embeddingOf,
  type Kept,
  type Layer,
  layerOf,
  reasonOfSelection,
  type Selection,
} from "./layers.ts";
import type { Range } from "./scheme.ts";

export interface PlanOptions extends Selection {
  /** Activations have their zero point in the middle. ReLUs are then operators of their own: their range is not that of the integers. */
  readonly symmetricActivations?: boolean | undefined;
}

export interface Plan {
  readonly table: ValueTable;
  readonly layers: readonly Layer[];
  readonly embeddings: readonly Embedding[];
  /** Operators between layers that integers compute too. */
  readonly followers: readonly NodeProto[];
  /** Activations that become integers, each after those that it is made from. */
  readonly activations: readonly Value[];
  /** Those of them that have the scale of others: of one that they are moved from, or a Concat's of what it joins. */
  readonly sources: ReadonlyMap<Value, readonly Value[]>;
  /** Layers in FP32. */
  readonly kept: readonly Kept[];
  /**
   * Whether it is of a layer in FP32 with nothing but a ReLU or Clip in between. ONNX Runtime makes the weights of such a layer
   * integers with one scale, unasked, if its result is rounded (WeightBiasQuantization); another operator before that keeps it off.
   */
  isOfFp32Layer(value: Value): boolean;
}

/** They move numbers, or choose from them: what comes out is as fine as what goes in. */
const MOVES = ["MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze"];
/** ONNX Runtime has them in integers, with scales of their own. */
const COMPUTES = [
  "Add",
  "Mul",
  "Concat",
  "AveragePool",
  "GlobalAveragePool",
  "Relu",
  "Clip",
  "LeakyRelu",
  "Sigmoid",
];

export function planStatic(model: Model, options: PlanOptions): Plan {
  const table = valuesOf(model);
  const { layers, embeddings, kept } = select(model, table, options);
  const rounded = new Set<Value>();
  const sources = new Map<Value, readonly Value[]>();
  const layersByOutput = new Map(layers.map((layer) => [layer.y, layer]));
  for (const { x, y, op } of layers) {
    rounded.add(x);
    // A product may stay in the FP32 that it is scaled to; a convolution is one of integers only if its result is.
    if (op === "Conv") rounded.add(landing(y));
  }

  const followers: NodeProto[] = [];
  for (const node of model.graph.node) {
    if (
      options.only !== undefined ||
      !isOnnxNode(node, ...MOVES, ...COMPUTES) ||
      reasonOfSelection(node, options) !== undefined
    )
      continue;
    const inputs = activationsOf(node);
    const [y] = table.outputsOf(node);
    if (
      inputs === undefined ||
      y === undefined ||
      !inputs.every((one) => rounded.has(one) || layersByOutput.has(one)) ||
      !inputs.some((one) => rounded.has(one))
    )
      continue;
    followers.push(node);
    for (const one of inputs) rounded.add(one);
    const moves = isOnnxNode(node, ...MOVES);
    const result = moves ? y : landing(y);
    rounded.add(result);
    // Behind an activation function it is no longer what was joined.
    if (moves || (isOnnxNode(node, "Concat") && result === y)) sources.set(y, inputs);
  }
  const activations = table.values.filter((value) => rounded.has(value));
  return { table, layers, embeddings, followers, activations, sources, kept, isOfFp32Layer };

  function isOfFp32Layer({ origin }: Value): boolean {
    if (origin.kind !== "node") return false;
    const [x] = table.inputsOf(origin.node);
    if (isOnnxNode(origin.node, "Relu", "Clip")) return x !== undefined && isOfFp32Layer(x);
    return (
      isOnnxNode(origin.node, "Conv", "ConvTranspose", "Gemm") &&
      x !== undefined &&
      rounded.has(x) &&
      !layers.some(({ node }) => node === origin.node)
    );
  }

  /** The operands that are no constants or shapes; undefined where it has others than integer operators take. */
  function activationsOf(node: NodeProto): Value[] | undefined {
    const [first, ...others] = table.inputsOf(node).flatMap((value) => value ?? []);
    if (first === undefined || node.output.filter((name) => name !== "").length !== 1)
      return undefined;
    const joins = isOnnxNode(node, "Add", "Mul", "Concat");
    const inputs = joins ? [first, ...others] : [first];
    const areActivations = inputs.every(
      (value) =>
        value.type === "float" &&
        value.graph === model.graph &&
        constantTensorOf(value) === undefined,
    );
    return areActivations &&
      (joins ||
        others.every((value) => constantTensorOf(value) !== undefined || value.type !== "float"))
      ? inputs
      : undefined;
  }

  /** Where a result is rounded: behind the activation functions that rounding takes the place of. */
  function landing(value: Value): Value {
    const [use, ...others] = value.uses;
    if (
      options.symmetricActivations === true ||
      use?.kind !== "node" ||
      others.length > 0 ||
      use.graph !== model.graph
    )
      return value;
    const [output] = table.outputsOf(use.node);
    return output !== undefined && saturates(table, use.node) ? landing(output) : value;
  }
}

function select(
  model: Model,
  table: ValueTable,
  options: PlanOptions,
): Pick<Plan, "layers" | "embeddings" | "kept"> {
  const layers: Layer[] = [];
  const embeddings: Embedding[] = [];
  const kept: Kept[] = [];
  for (const node of model.graph.node) {
    const layer = layerOf(table, node);
    const embedding = embeddingOf(table, node);
    if (layer === undefined && embedding === undefined) continue;
    const reason =
      reasonOfSelection(node, options) ??
      (layer !== undefined && "reason" in layer ? layer.reason : undefined);
    if (reason !== undefined) kept.push({ node: node.name, op: node.opType, reason });
    else if (layer !== undefined && "node" in layer) layers.push(layer);
    else if (embedding !== undefined) embeddings.push(embedding);
  }
  return { layers, embeddings, kept };
}

/** Whether all it does is to cut off what is below 0 or a bound, and what is above one, so that rounding can do it. */
function saturates(table: ValueTable, node: NodeProto): boolean {
  if (isOnnxNode(node, "Relu")) return true;
  const bounds = isOnnxNode(node, "Clip") ? boundsOfClip(table, node) : undefined;
  return bounds !== undefined && bounds.low <= 0 && bounds.high >= 0;
}

const ANY: Range = { low: Number.NEGATIVE_INFINITY, high: Number.POSITIVE_INFINITY };

/** The numbers that an operator can give, whatever it is given. */
export function outputBounds(table: ValueTable, node: NodeProto): Range {
  if (isOnnxNode(node, "Relu", "Abs", "Sqrt", "Exp")) return { ...ANY, low: 0 };
  if (isOnnxNode(node, "Sigmoid", "HardSigmoid", "Softmax")) return { low: 0, high: 1 };
  if (isOnnxNode(node, "Tanh")) return { low: -1, high: 1 };
  return (isOnnxNode(node, "Clip") ? boundsOfClip(table, node) : undefined) ?? ANY;
}

/** Undefined where they are no constants. */
function boundsOfClip(table: ValueTable, node: NodeProto): Range | undefined {
  const [, low, high] = table.inputsOf(node);
  const [least, most] = [
    low === undefined ? ANY.low : constantOf(low)?.[0],
    high === undefined ? ANY.high : constantOf(high)?.[0],
  ];
  return least === undefined || most === undefined ? undefined : { low: least, high: most };
}
