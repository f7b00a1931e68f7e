// What of a graph is computed in integers by static quantisation, and which activations become integers for that.
//
// The form is QDQ: every activation that integers are computed from, or rounded to, goes through QuantizeLinear (Q) and
// DequantizeLinear (DQ). ONNX Runtime makes an integer operator of DQ -> operator -> Q
// (onnxruntime/core/optimizer/qdq_transformer). A ReLU or a Clip between operator and Q is dropped where Q saturates as it
// does, so the activation before it is not rounded.

import { readFloatConstant, readConstantTensor } from "../onnx/constants.ts";
import type { Model } from "../onnx/model-file.ts";
import { isOnnxOp } from "../onnx/nodes.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import { type Value, type ValueTable, buildValueTable } from "../onnx/value-table.ts";
import {
  type EmbeddingTable,
  findEmbeddingTable,
  type Fp32Layer,
  type QuantizableLayer,
  findQuantizableLayer,
  findExclusionReason,
  type LayerSelection,
} from "./quantizable-layers.ts";
import type { ValueRange } from "./quantization-scheme.ts";

export interface StaticPlanOptions extends LayerSelection {
  /** Activations have their zero point in the middle. ReLUs are then operators of their own: their range is not that of the integers. */
  readonly symmetricActivations?: boolean | undefined;
}

export interface StaticPlan {
  readonly table: ValueTable;
  readonly layers: readonly QuantizableLayer[];
  readonly embeddings: readonly EmbeddingTable[];
  /** Operators between layers that integers compute too. */
  readonly integerOperators: readonly NodeProto[];
  /** Activations that become integers, each after those that it is made from. */
  readonly activations: readonly Value[];
  /** Those of them that have the scale of others: of one that they are moved from, or a Concat's of what it joins. */
  readonly scaleSources: ReadonlyMap<Value, readonly Value[]>;
  /** Layers in FP32. */
  readonly fp32Layers: readonly Fp32Layer[];
  /**
   * Whether it is of a layer in FP32 with nothing but a ReLU or Clip in between. ONNX Runtime makes the weights of such a layer
   * integers with one scale, unasked, if its result is rounded (WeightBiasQuantization); another operator before that keeps it off.
   */
  isFp32LayerOutput(value: Value): boolean;
}

/** They move numbers, or choose from them: what comes out is as fine as what goes in. */
const DATA_MOVEMENT_OPS = ["MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze"];
/** ONNX Runtime has them in integers, with scales of their own. */
const INTEGER_OPS = [
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

export function planStaticQuantization(model: Model, options: StaticPlanOptions): StaticPlan {
  const table = buildValueTable(model);
  const { layers, embeddings, fp32Layers: kept } = selectLayers(model, table, options);
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
      !isOnnxOp(node, ...DATA_MOVEMENT_OPS, ...INTEGER_OPS) ||
      findExclusionReason(node, options) !== undefined
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
    const moves = isOnnxOp(node, ...DATA_MOVEMENT_OPS);
    const result = moves ? y : landing(y);
    rounded.add(result);
    // Behind an activation function it is no longer what was joined.
    if (moves || (isOnnxOp(node, "Concat") && result === y)) sources.set(y, inputs);
  }
  const activations = table.values.filter((value) => rounded.has(value));
  return {
    table,
    layers,
    embeddings,
    integerOperators: followers,
    activations,
    scaleSources: sources,
    fp32Layers: kept,
    isFp32LayerOutput: isOfFp32Layer,
  };

  function isOfFp32Layer({ origin }: Value): boolean {
    if (origin.kind !== "node") return false;
    const [x] = table.inputsOf(origin.node);
    if (isOnnxOp(origin.node, "Relu", "Clip")) return x !== undefined && isOfFp32Layer(x);
    return (
      isOnnxOp(origin.node, "Conv", "ConvTranspose", "Gemm") &&
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
    const joins = isOnnxOp(node, "Add", "Mul", "Concat");
    const inputs = joins ? [first, ...others] : [first];
    const areActivations = inputs.every(
      (value) =>
        value.type === "float" &&
        value.graph === model.graph &&
        readConstantTensor(value) === undefined,
    );
    return areActivations &&
      (joins ||
        others.every((value) => readConstantTensor(value) !== undefined || value.type !== "float"))
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

function selectLayers(
  model: Model,
  table: ValueTable,
  options: StaticPlanOptions,
): Pick<StaticPlan, "layers" | "embeddings" | "fp32Layers"> {
  const layers: QuantizableLayer[] = [];
  const embeddings: EmbeddingTable[] = [];
  const kept: Fp32Layer[] = [];
  for (const node of model.graph.node) {
    const layer = findQuantizableLayer(table, node);
    const embedding = findEmbeddingTable(table, node);
    if (layer === undefined && embedding === undefined) continue;
    const reason =
      findExclusionReason(node, options) ??
      (layer !== undefined && "reason" in layer ? layer.reason : undefined);
    if (reason !== undefined) kept.push({ node: node.name, op: node.opType, reason });
    else if (layer !== undefined && "node" in layer) layers.push(layer);
    else if (embedding !== undefined) embeddings.push(embedding);
  }
  return { layers, embeddings, fp32Layers: kept };
}

/** Whether all it does is to cut off what is below 0 or a bound, and what is above one, so that rounding can do it. */
function saturates(table: ValueTable, node: NodeProto): boolean {
  if (isOnnxOp(node, "Relu")) return true;
  const bounds = isOnnxOp(node, "Clip") ? readClipRange(table, node) : undefined;
  return bounds !== undefined && bounds.low <= 0 && bounds.high >= 0;
}

const UNBOUNDED: ValueRange = { low: Number.NEGATIVE_INFINITY, high: Number.POSITIVE_INFINITY };

/** The numbers that an operator can give, whatever it is given. */
export function outputRange(table: ValueTable, node: NodeProto): ValueRange {
  if (isOnnxOp(node, "Relu", "Abs", "Sqrt", "Exp")) return { ...UNBOUNDED, low: 0 };
  if (isOnnxOp(node, "Sigmoid", "HardSigmoid", "Softmax")) return { low: 0, high: 1 };
  if (isOnnxOp(node, "Tanh")) return { low: -1, high: 1 };
  return (isOnnxOp(node, "Clip") ? readClipRange(table, node) : undefined) ?? UNBOUNDED;
}

/** Undefined where they are no constants. */
function readClipRange(table: ValueTable, node: NodeProto): ValueRange | undefined {
  const [, low, high] = table.inputsOf(node);
  const [least, most] = [
    low === undefined ? UNBOUNDED.low : readFloatConstant(low)?.[0],
    high === undefined ? UNBOUNDED.high : readFloatConstant(high)?.[0],
  ];
  return least === undefined || most === undefined ? undefined : { low: least, high: most };
}
