// Plans static quantization: which operators compute in integers, and which activations become
// integers.
//
// The form is QDQ: every activation that integers are computed from, or rounded to, passes through
// QuantizeLinear (Q) and DequantizeLinear (DQ). ONNX Runtime fuses DQ -> operator -> Q to an
// integer operator (onnxruntime/core/optimizer/qdq_transformer). It drops a ReLU or Clip before Q
// if Q saturates in the same way. The activation before such an operator is therefore not rounded.

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
  /**
   * Places the zero point of activations in the middle. ReLUs then remain operators, because their
   * range differs from that of the integers.
   */
  readonly symmetricActivations?: boolean | undefined;
}

export interface StaticPlan {
  readonly table: ValueTable;
  readonly layers: readonly QuantizableLayer[];
  readonly embeddings: readonly EmbeddingTable[];
  /** Operators between layers that also compute in integers. */
  readonly integerOperators: readonly NodeProto[];
  /** Activations that become integers, in topological order. */
  readonly activations: readonly Value[];
  /**
   * Activations that share scales with others: the source of a moved value, or the inputs of a
   * Concat.
   */
  readonly scaleSources: ReadonlyMap<Value, readonly Value[]>;
  /** Layers that remain in FP32. */
  readonly fp32Layers: readonly Fp32Layer[];
  /**
   * Tells whether an FP32 layer produces the value, directly or through a ReLU or Clip. If such a
   * result is rounded, ONNX Runtime quantizes the layer's weights with one scale
   * (WeightBiasQuantization). An operator in between prevents this.
   */
  isFp32LayerOutput(value: Value): boolean;
}

/** Operators that move or select values, so the output needs the same scale as the input. */
const DATA_MOVEMENT_OPS = ["MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze"];
/** Operators that ONNX Runtime computes in integers with separate scales. */
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
  const { layers, embeddings, fp32Layers } = selectLayers(model, table, options);
  const context: PlanContext = { model, table, options, rounded: new Set() };
  const { rounded } = context;
  for (const { x, y, op } of layers) {
    rounded.add(x);
    // A matrix product can stay in FP32, but a convolution runs in integers only if its result is
    // rounded.
    if (op === "Conv") rounded.add(findRoundingPoint(context, y));
  }
  const { integerOperators, scaleSources } = extendToOperators(context, layers);
  const layerNodes = new Set(layers.map(({ node }) => node));
  return {
    table,
    layers,
    embeddings,
    integerOperators,
    activations: table.values.filter((value) => rounded.has(value)),
    scaleSources,
    fp32Layers,
    isFp32LayerOutput: (value) => isFp32LayerOutput(context, layerNodes, value),
  };
}

interface PlanContext {
  readonly model: Model;
  readonly table: ValueTable;
  readonly options: StaticPlanOptions;
  /** Activations that become integers. */
  readonly rounded: Set<Value>;
}

/** Adds the operators between integer layers, and rounds their activations. */
function extendToOperators(
  context: PlanContext,
  layers: readonly QuantizableLayer[],
): Pick<StaticPlan, "integerOperators" | "scaleSources"> {
  const { model, table, options, rounded } = context;
  const layerOutputs = new Set(layers.map(({ y }) => y));
  const integerOperators: NodeProto[] = [];
  const scaleSources = new Map<Value, readonly Value[]>();
  for (const node of model.graph.node) {
    if (
      options.only !== undefined ||
      !isOnnxOp(node, ...DATA_MOVEMENT_OPS, ...INTEGER_OPS) ||
      findExclusionReason(node, options) !== undefined
    )
      continue;
    const inputs = findActivationInputs(context, node);
    const [y] = table.outputsOf(node);
    if (
      inputs === undefined ||
      y === undefined ||
      !inputs.every((input) => rounded.has(input) || layerOutputs.has(input)) ||
      !inputs.some((input) => rounded.has(input))
    )
      continue;
    integerOperators.push(node);
    for (const input of inputs) rounded.add(input);
    const isMovement = isOnnxOp(node, ...DATA_MOVEMENT_OPS);
    const result = isMovement ? y : findRoundingPoint(context, y);
    rounded.add(result);
    // The result of an activation function after a Concat has its own range.
    if (isMovement || (isOnnxOp(node, "Concat") && result === y)) scaleSources.set(y, inputs);
  }
  return { integerOperators, scaleSources };
}

function isFp32LayerOutput(
  context: PlanContext,
  layerNodes: ReadonlySet<NodeProto>,
  { origin }: Value,
): boolean {
  if (origin.kind !== "node") return false;
  const { table, rounded } = context;
  const [x] = table.inputsOf(origin.node);
  if (isOnnxOp(origin.node, "Relu", "Clip"))
    return x !== undefined && isFp32LayerOutput(context, layerNodes, x);
  return (
    isOnnxOp(origin.node, "Conv", "ConvTranspose", "Gemm") &&
    x !== undefined &&
    rounded.has(x) &&
    !layerNodes.has(origin.node)
  );
}

/**
 * Returns the operands that are not constants or shapes; undefined if integer operators do not
 * support the operands.
 */
function findActivationInputs({ model, table }: PlanContext, node: NodeProto): Value[] | undefined {
  const [first, ...others] = table.inputsOf(node).flatMap((value) => value ?? []);
  if (first === undefined || node.output.filter((name) => name !== "").length !== 1)
    return undefined;
  const joinsActivations = isOnnxOp(node, "Add", "Mul", "Concat");
  const inputs = joinsActivations ? [first, ...others] : [first];
  const areActivations = inputs.every(
    (value) =>
      value.type === "float" &&
      value.graph === model.graph &&
      readConstantTensor(value) === undefined,
  );
  return areActivations &&
    (joinsActivations ||
      others.every((value) => readConstantTensor(value) !== undefined || value.type !== "float"))
    ? inputs
    : undefined;
}

/** Finds the value to round: the result of the activation functions that rounding replaces. */
function findRoundingPoint(context: PlanContext, value: Value): Value {
  const { model, table, options } = context;
  const [use, ...others] = value.uses;
  if (
    options.symmetricActivations === true ||
    use?.kind !== "node" ||
    others.length > 0 ||
    use.graph !== model.graph
  )
    return value;
  const [output] = table.outputsOf(use.node);
  return output !== undefined && isSaturation(table, use.node)
    ? findRoundingPoint(context, output)
    : value;
}

function selectLayers(
  model: Model,
  table: ValueTable,
  options: StaticPlanOptions,
): Pick<StaticPlan, "layers" | "embeddings" | "fp32Layers"> {
  const layers: QuantizableLayer[] = [];
  const embeddings: EmbeddingTable[] = [];
  const fp32Layers: Fp32Layer[] = [];
  for (const node of model.graph.node) {
    const layer = findQuantizableLayer(table, node);
    const embedding = findEmbeddingTable(table, node);
    if (layer === undefined && embedding === undefined) continue;
    const reason =
      findExclusionReason(node, options) ??
      (layer !== undefined && "reason" in layer ? layer.reason : undefined);
    if (reason !== undefined) fp32Layers.push({ node: node.name, op: node.opType, reason });
    else if (layer !== undefined && "node" in layer) layers.push(layer);
    else if (embedding !== undefined) embeddings.push(embedding);
  }
  return { layers, embeddings, fp32Layers };
}

/**
 * Tells whether the operator only clips values below 0 or a bound, and above a bound, so that
 * rounding can replace it.
 */
function isSaturation(table: ValueTable, node: NodeProto): boolean {
  if (isOnnxOp(node, "Relu")) return true;
  const bounds = isOnnxOp(node, "Clip") ? readClipRange(table, node) : undefined;
  return bounds !== undefined && bounds.low <= 0 && bounds.high >= 0;
}

const UNBOUNDED: ValueRange = { low: Number.NEGATIVE_INFINITY, high: Number.POSITIVE_INFINITY };

/** Returns the range of an operator's possible outputs, for any input. */
export function outputRange(table: ValueTable, node: NodeProto): ValueRange {
  if (isOnnxOp(node, "Relu", "Abs", "Sqrt", "Exp")) return { ...UNBOUNDED, low: 0 };
  if (isOnnxOp(node, "Sigmoid", "HardSigmoid", "Softmax")) return { low: 0, high: 1 };
  if (isOnnxOp(node, "Tanh")) return { low: -1, high: 1 };
  return (isOnnxOp(node, "Clip") ? readClipRange(table, node) : undefined) ?? UNBOUNDED;
}

/** Returns undefined if the bounds are not constant. */
function readClipRange(table: ValueTable, node: NodeProto): ValueRange | undefined {
  const [, low, high] = table.inputsOf(node);
  const [least, most] = [
    low === undefined ? UNBOUNDED.low : readFloatConstant(low)?.[0],
    high === undefined ? UNBOUNDED.high : readFloatConstant(high)?.[0],
  ];
  return least === undefined || most === undefined ? undefined : { low: least, high: most };
}
