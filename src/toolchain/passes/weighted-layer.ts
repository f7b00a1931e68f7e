// Describes a layer for passes that edit weights and biases: Conv, ConvTranspose or Gemm with FP32
// constants.

import { readFloatConstant, readConstantTensor } from "../onnx/constants.ts";
import { UniqueNames, setInput } from "../onnx/graph-edits.ts";
import { readFloatAttribute, readIntAttribute } from "../onnx/graph-queries.ts";
import { addInitializer } from "../onnx/initializers.ts";
import type { Model } from "../onnx/model-file.ts";
import { isOnnxOp, removeAttribute } from "../onnx/nodes.ts";
import type { GraphProto, NodeProto } from "../onnx/proto/onnx_pb.js";
import { makeTensor } from "../onnx/tensor-data.ts";
import type { Value, ValueTable } from "../onnx/value-table.ts";

export interface WeightedLayer {
  readonly node: NodeProto;
  readonly graph: GraphProto;
  /** Number of output channels. */
  readonly channels: number;
  /** Rank of the output. Channels are dimension 1. */
  readonly rank: number;
  readonly weights: Float32Array;
  /** Shape of the weights. */
  readonly dims: readonly bigint[];
  /** Returns the output channel of the weight at an index. */
  channelOf(index: number): number;
  /** One value per channel, 0 if the layer has no bias. Includes Gemm's beta. */
  readonly bias: Float64Array;
}

/**
 * @returns undefined if the node is not such a layer, or if its weights or bias are not FP32
 * constants
 */
export function findWeightedLayer(
  value: Value | undefined,
  table: ValueTable,
): WeightedLayer | undefined {
  if (
    value?.origin.kind !== "node" ||
    value.origin.position !== 0 ||
    !isOnnxOp(value.origin.node, "Conv", "ConvTranspose", "Gemm")
  )
    return undefined;
  const { node } = value.origin;
  const [, weight, bias] = table.inputsOf(node);
  const [weights, dims = []] = [readFloatConstant(weight), readConstantTensor(weight)?.dims];
  if (weights === undefined || dims.length < 2) return undefined;
  const geometry = isOnnxOp(node, "Gemm")
    ? gemmGeometry(node, dims.map(Number))
    : isOnnxOp(node, "Conv")
      ? convGeometry(dims.map(Number))
      : convTransposeGeometry(node, dims.map(Number));
  const biases = readBias(
    bias,
    geometry.channels,
    isOnnxOp(node, "Gemm") ? readFloatAttribute(node, "beta", 1) : 1,
  );
  return biases && { node, graph: value.graph, weights, dims, bias: biases, ...geometry };
}

type Geometry = Pick<WeightedLayer, "channels" | "rank" | "channelOf">;

function convGeometry(dims: readonly number[]): Geometry {
  const [channels = 0, ...rest] = dims;
  const size = product(rest);
  return { channels, rank: dims.length, channelOf: (index) => Math.floor(index / size) };
}

/** The weights have the shape [input channels, output channels per group, ...kernel]. */
function convTransposeGeometry(node: NodeProto, dims: readonly number[]): Geometry {
  const [inputs = 0, perGroup = 0, ...kernel] = dims;
  const [groups, size] = [readIntAttribute(node, "group", 1), product(kernel)];
  const channelOf = (index: number) => {
    const row = Math.floor(index / size);
    const group = Math.floor((Math.floor(row / perGroup) * groups) / inputs);
    return group * perGroup + (row % perGroup);
  };
  return { channels: perGroup * groups, rank: dims.length, channelOf };
}

function gemmGeometry(node: NodeProto, [rows = 0, columns = 0]: readonly number[]): Geometry {
  const transposed = readIntAttribute(node, "transB", 0) !== 0;
  return {
    channels: transposed ? rows : columns,
    rank: 2,
    channelOf: (index) => (transposed ? Math.floor(index / columns) : index % columns),
  };
}

/** Returns undefined if the bias is not constant, or differs between rows. */
function readBias(
  value: Value | undefined,
  channels: number,
  factor: number,
): Float64Array | undefined {
  if (value === undefined) return new Float64Array(channels);
  const values = readPerChannelConstant(value, channels, 2, 1);
  return values?.map((bias) => bias * factor);
}

/**
 * Reads a constant that broadcasts to [batch, channels, ...] with one number per channel.
 * @param rank rank of the tensor that the constant is added to
 * @param axis dimension of the channels
 */
export function readPerChannelConstant(
  value: Value | undefined,
  channels: number,
  rank: number,
  axis: number,
): Float64Array | undefined {
  const [numbers, dims] = [readFloatConstant(value), readConstantTensor(value)?.dims.map(Number)];
  if (numbers === undefined || dims === undefined || dims.length > rank) return undefined;
  const offset = rank - dims.length;
  const fits = dims.every(
    (size, position) => size === 1 || (position + offset === axis && size === channels),
  );
  if (!fits) return undefined;
  return numbers.length === channels
    ? Float64Array.from(numbers)
    : new Float64Array(channels).fill(numbers[0] ?? 0);
}

/**
 * Replaces the layer's constants. The old ones remain, because they may have other readers. Weights
 * keep their shape.
 */
export function replaceLayerConstants(
  model: Model,
  names: UniqueNames,
  { node, graph, channels, dims }: WeightedLayer,
  { weights, bias }: { readonly weights?: Float32Array; readonly bias: Float64Array },
): void {
  const addConstant = (suffix: string, shape: readonly bigint[], data: Float32Array) => {
    const name = names.reserve(`${node.output[0]}_${suffix}`);
    addInitializer(model, graph, makeTensor(name, "float", shape, data));
    return name;
  };
  if (weights !== undefined) setInput(node, 1, addConstant("weights", dims, weights));
  setInput(node, 2, addConstant("bias", [BigInt(channels)], Float32Array.from(bias)));
  removeAttribute(node, "beta");
}

const product = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1);
