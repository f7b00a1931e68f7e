// Pairs of layers whose channels go from the one straight into the other, which cross-layer-equalization.ts moves factors between.

import { readFloatConstant } from "../onnx/constants.ts";
import { findAttribute, isOnnxOp } from "../onnx/nodes.ts";
import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import type { Use, Value, ValueTable } from "../onnx/value-table.ts";
import { type QuantizableLayer, findQuantizableLayer } from "./quantizable-layers.ts";
import { readFloatTensor } from "./quantize-weights.ts";

/** A constant that is changed, and the node that reads it. */
export interface ScaledConstant {
  readonly tensor: TensorProto;
  readonly node: NodeProto;
  /** Of a Gemm: the attribute that the constant is multiplied by, which is in its values from then on. */
  readonly factor: "alpha" | "beta";
  readonly values: Float64Array;
}

export type FindScaledConstant = (
  value: Value,
  node: NodeProto,
  factor: ScaledConstant["factor"],
  values?: Float32Array,
) => ScaledConstant | undefined;

export interface LayerPair {
  readonly first: string;
  readonly second: string;
  readonly channels: number;
  /** Of the channels between the layers, which an element of the weights belongs to. */
  readonly firstWeights: ScaledConstant & { readonly channelOf: (index: number) => number };
  readonly secondWeights: ScaledConstant & { readonly channelOf: (index: number) => number };
  readonly biases: readonly ScaledConstant[];
  readonly clips: readonly NodeProto[];
}

/** @returns the pair that begins with this layer */
export function findLayerPair(
  table: ValueTable,
  first: QuantizableLayer,
  replaceRelu6: boolean,
  partOf: FindScaledConstant,
): LayerPair | undefined {
  const channels = first.weights.dims[first.weights.axis] ?? 0;
  const path = findPath(table, first, channels, replaceRelu6);
  const second = path && findQuantizableLayer(table, path.end);
  if (
    path === undefined ||
    second === undefined ||
    "reason" in second ||
    findAttribute(second.node, "transA")?.i
  )
    return undefined;
  const [, , ownBias] = table.inputsOf(first.node);
  const added = path.added.map(({ value, node }) => partOf(value, node, "beta"));
  const biases = [
    ...(ownBias === undefined ? [] : [partOf(ownBias, first.node, "beta", first.bias)]),
    ...added,
  ];
  const [out, into] = [first, second].map(({ weights, node }) =>
    partOf(weights.value, node, "alpha", weights.values),
  );
  if (
    out === undefined ||
    into === undefined ||
    out === into ||
    biases.some((bias) => bias?.values.length !== channels)
  )
    return undefined;
  const channelIn = inputChannelMapper(second, channels);
  if (channelIn === undefined) return undefined;
  const inner = innerSize(first.weights.dims, first.weights.axis);
  return {
    first: first.node.name,
    second: second.node.name,
    channels,
    firstWeights: { ...out, channelOf: (index) => Math.floor(index / inner) % channels },
    secondWeights: { ...into, channelOf: channelIn },
    biases: biases.filter((bias) => bias !== undefined),
    clips: path.clips,
  };
}

interface Path {
  readonly end: NodeProto;
  /** Constants that are added by channel. */
  readonly added: readonly { readonly value: Value; readonly node: NodeProto }[];
  readonly clips: readonly NodeProto[];
}

/** Through operators that give twice as much for twice as much, each read by nothing but the next. */
function findPath(
  table: ValueTable,
  { y, op }: QuantizableLayer,
  channels: number,
  replaceRelu6: boolean,
): Path | undefined {
  const added: { value: Value; node: NodeProto }[] = [];
  const clips: NodeProto[] = [];
  let pooled = false;
  for (let at: Value | undefined = y; at !== undefined;) {
    const [use, ...others]: readonly Use[] = at.uses;
    if (use?.kind !== "node" || others.length > 0) return undefined;
    const { node, position }: { readonly node: NodeProto; readonly position: number } = use;
    const summand = table.inputsOf(node)[1 - position];
    if (isOnnxOp(node, "Conv", "Gemm", "MatMul"))
      return position === 0 ? { end: node, added, clips } : undefined;
    if (
      replaceRelu6 &&
      isOnnxOp(node, "Clip") &&
      readFloatConstant(table.inputsOf(node)[1])?.[0] === 0
    ) {
      clips.push(node);
    } else if (
      op === "MatMul" &&
      isOnnxOp(node, "Add") &&
      summand !== undefined &&
      readFloatTensor(summand)?.dims.at(-1) === channels
    ) {
      added.push({ value: summand, node });
    } else if (op === "Conv" && isOnnxOp(node, "GlobalAveragePool")) {
      pooled = true;
    } else if (
      !isOnnxOp(node, "Relu", "LeakyRelu", "Identity") &&
      !(op === "Conv" && isOnnxOp(node, "MaxPool", "AveragePool")) &&
      !(pooled && flattensChannels(node))
    ) {
      return undefined;
    }
    [at] = table.outputsOf(node);
  }
  return undefined;
}

const flattensChannels = (node: NodeProto): boolean =>
  isOnnxOp(node, "Flatten") && Number(findAttribute(node, "axis")?.i ?? 1n) === 1;

/** Of the second layer's weights. Undefined where its inputs are not these channels. */
function inputChannelMapper(
  { op, node, weights: { dims, axis } }: QuantizableLayer,
  channels: number,
): ((index: number) => number) | undefined {
  if (op !== "Conv") {
    const inputAxis = 1 - axis;
    const inner = innerSize(dims, inputAxis);
    return dims[inputAxis] === channels
      ? (index) => Math.floor(index / inner) % channels
      : undefined;
  }
  const [outputs = 0, perGroup = 0] = dims;
  const groups = Number(findAttribute(node, "group")?.i ?? 1n);
  const inner = innerSize(dims, 1);
  const outputsPerGroup = outputs / groups;
  return perGroup * groups === channels
    ? (index) =>
        Math.floor(index / (inner * perGroup * outputsPerGroup)) * perGroup +
        (Math.floor(index / inner) % perGroup)
    : undefined;
}

const innerSize = (dims: readonly number[], axis: number): number =>
  dims.slice(axis + 1).reduce((product, size) => product * size, 1);
