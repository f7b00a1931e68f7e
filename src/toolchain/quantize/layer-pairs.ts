// Finds pairs of layers whose channels lead directly from one into the other, for
// cross-layer-equalization.ts.

import { readFloatConstant } from "../onnx/constants.ts";
import { findAttribute, isOnnxOp } from "../onnx/nodes.ts";
import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import type { Use, Value, ValueTable } from "../onnx/value-table.ts";
import { type QuantizableLayer, findQuantizableLayer } from "./quantizable-layers.ts";
import { readFloatTensor } from "./quantize-weights.ts";

/** A constant that is rescaled, and the node that reads it. */
export interface ScaledConstant {
  readonly tensor: TensorProto;
  readonly node: NodeProto;
  /** The Gemm attribute that multiplies the constant. Its effect is folded into the values. */
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
  /** Weights of each layer, with the channel between the layers that an element belongs to. */
  readonly firstWeights: ScaledConstant & { readonly channelOf: (index: number) => number };
  readonly secondWeights: ScaledConstant & { readonly channelOf: (index: number) => number };
  readonly biases: readonly ScaledConstant[];
  readonly clips: readonly NodeProto[];
}

/** @returns the pair that starts with this layer */
export function findLayerPair(
  table: ValueTable,
  first: QuantizableLayer,
  replaceRelu6: boolean,
  findConstant: FindScaledConstant,
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
  const added = path.added.map(({ value, node }) => findConstant(value, node, "beta"));
  const biases = [
    ...(ownBias === undefined ? [] : [findConstant(ownBias, first.node, "beta", first.bias)]),
    ...added,
  ];
  const [firstWeights, secondWeights] = [first, second].map(({ weights, node }) =>
    findConstant(weights.value, node, "alpha", weights.values),
  );
  if (
    firstWeights === undefined ||
    secondWeights === undefined ||
    firstWeights === secondWeights ||
    biases.some((bias) => bias?.values.length !== channels)
  )
    return undefined;
  const secondChannelOf = inputChannelMapper(second, channels);
  if (secondChannelOf === undefined) return undefined;
  const channelSize = innerSize(first.weights.dims, first.weights.axis);
  return {
    first: first.node.name,
    second: second.node.name,
    channels,
    firstWeights: {
      ...firstWeights,
      channelOf: (index) => Math.floor(index / channelSize) % channels,
    },
    secondWeights: { ...secondWeights, channelOf: secondChannelOf },
    biases: biases.filter((bias) => bias !== undefined),
    clips: path.clips,
  };
}

interface Path {
  readonly end: NodeProto;
  /** Constants that are added per channel. */
  readonly added: readonly { readonly value: Value; readonly node: NodeProto }[];
  readonly clips: readonly NodeProto[];
}

/** Follows operators that scale with their input, where each value has exactly one reader. */
function findPath(
  table: ValueTable,
  { y, op }: QuantizableLayer,
  channels: number,
  replaceRelu6: boolean,
): Path | undefined {
  const added: { value: Value; node: NodeProto }[] = [];
  const clips: NodeProto[] = [];
  let isPooled = false;
  for (let value: Value | undefined = y; value !== undefined;) {
    const [use, ...others]: readonly Use[] = value.uses;
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
      isPooled = true;
    } else if (
      !isOnnxOp(node, "Relu", "LeakyRelu", "Identity") &&
      !(op === "Conv" && isOnnxOp(node, "MaxPool", "AveragePool")) &&
      !(isPooled && flattensChannels(node))
    ) {
      return undefined;
    }
    [value] = table.outputsOf(node);
  }
  return undefined;
}

const flattensChannels = (node: NodeProto): boolean =>
  isOnnxOp(node, "Flatten") && Number(findAttribute(node, "axis")?.i ?? 1n) === 1;

/**
 * Maps elements of the second layer's weights to channels. Returns undefined if its inputs are not
 * these channels.
 */
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
