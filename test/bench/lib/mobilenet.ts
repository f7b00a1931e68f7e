// MobileNetV1 in INT8 with random weights: a convolutional benchmark model of a common size.
// Howard et al. 2017, "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications", table 1.

import { encodeModel, int, ints, type OnnxGraph, type OnnxNode } from "./onnx-writer.ts";
import { createRandom, type Random } from "./random.ts";

export interface MobileNetOptions {
  readonly seed: number;
  /** The paper's width multiplier: 1 is the full model. No layer has fewer than 8 channels. */
  readonly width: number;
  /** Height and width of the image, in pixels. */
  readonly resolution: number;
  readonly classes: number;
}

/** The depthwise separable blocks: stride of the depthwise convolution, output channels of the pointwise one. */
const BLOCKS: readonly (readonly [stride: number, channels: number])[] = [
  [1, 64],
  [2, 128],
  [1, 128],
  [2, 256],
  [1, 256],
  [2, 512],
  [1, 512],
  [1, 512],
  [1, 512],
  [1, 512],
  [1, 512],
  [2, 1024],
  [1, 1024],
];

/**
 * Seven bits, as with `reduce_range` in ONNX Runtime's quantizer. x86 without VNNI adds pairs of products in 16 bits.
 * Eight bits may saturate there, and then differ from WebAssembly.
 */
const LARGEST_WEIGHT = 63;
/** Standard deviation of a uniform weight, in steps. */
const WEIGHT_DEVIATION = LARGEST_WEIGHT / Math.sqrt(3);
/** Convolutions are scaled to this standard deviation before their ReLU6, whose range is then three of them. */
const DEVIATION = 2;
/** Averages over many positions are well below 6, the range of ReLU6. */
const POOLED_RANGE = 3;
/** Standard deviation of the pooled values from channel to channel; it makes logits of about 2. */
const POOLED_DEVIATION = 0.3;
const LOGITS_RANGE = 24;
const LOGITS_DEVIATION = 2;
/** Mean of a normal distribution that is truncated at 0. */
const RELU_MEAN = DEVIATION / Math.sqrt(2 * Math.PI);
const RELU_MOMENTS = { mean: RELU_MEAN, variance: DEVIATION ** 2 / 2 - RELU_MEAN ** 2 };

/** A quantized activation and its expected moments over images and positions, which scale the next layer. */
interface Activation {
  readonly name: string;
  readonly channels: number;
  readonly quantization: QuantizationParameters;
  readonly mean: number;
  readonly variance: number;
}

interface QuantizationParameters {
  /** Names of the two constants, in operator order. */
  readonly names: readonly [scale: string, zeroPoint: string];
  readonly scale: number;
}

interface ConvolutionOptions {
  readonly channels: number;
  readonly kernel: number;
  /** 1 by default. */
  readonly stride?: number;
  /** 1 by default. */
  readonly groups?: number;
}

/** The graph under construction. */
interface GraphBuilder {
  readonly random: Random;
  readonly nodes: OnnxNode[];
  readonly initializers: Record<string, OnnxGraph["initializers"][string]>;
}

/**
 * Creates the bytes of an .onnx file. Input `pixels`: FP32 [N, 3, resolution, resolution], from -1 to 1. Output `logits`: FP32 [N, classes].
 * The same options give the same bytes. About half of all activations are 0 and 0.2 % saturate, at any depth, so that
 * different images have different logits.
 */
export function createMobileNet({
  seed,
  width,
  resolution,
  classes,
}: MobileNetOptions): Uint8Array {
  const builder: GraphBuilder = { random: createRandom(seed), nodes: [], initializers: {} };
  // ReLU6 is the range of its output, because values below 0 or above 6 saturate.
  const relu6 = addQuantization(builder, "relu6", 6, 0);
  const image = addQuantization(builder, "image", 2, 128);
  builder.nodes.push({
    op: "QuantizeLinear",
    inputs: ["pixels", ...image.names],
    outputs: ["image"],
  });
  const scaleChannels = (channels: number) => Math.max(8, Math.round(channels * width));
  let x: Activation = { name: "image", channels: 3, quantization: image, mean: 0, variance: 1 / 3 };
  const convolve = (name: string, options: ConvolutionOptions) => {
    x = addConvolution(builder, name, x, relu6, options);
  };
  convolve("stem", { channels: scaleChannels(32), kernel: 3, stride: 2 });
  BLOCKS.forEach(([stride, channels], index) => {
    convolve(`depthwise_${index}`, {
      channels: x.channels,
      kernel: 3,
      stride,
      groups: x.channels,
    });
    convolve(`pointwise_${index}`, { channels: scaleChannels(channels), kernel: 1 });
  });
  addClassifier(builder, x, classes);
  return encodeModel({
    name: "mobilenet_v1",
    opset: 13,
    inputs: [{ name: "pixels", datatype: "FP32", shape: ["batch", 3, resolution, resolution] }],
    outputs: [{ name: "logits", datatype: "FP32", shape: ["batch", classes] }],
    nodes: builder.nodes,
    initializers: builder.initializers,
  });
}

/** Adds a quantized convolution with ReLU6. */
function addConvolution(
  { random, nodes, initializers }: GraphBuilder,
  name: string,
  x: Activation,
  relu6: QuantizationParameters,
  { channels, kernel, stride = 1, groups = 1 }: ConvolutionOptions,
): Activation {
  const shape = [channels, x.channels / groups, kernel, kernel];
  const fanIn = (x.channels / groups) * kernel * kernel;
  const weights = drawWeights(random, channels * fanIn);
  const { scales, bias } = computeScalesAndBias(weights, channels, x);
  initializers[`${name}_bias`] = { datatype: "INT32", shape: [channels], data: bias };
  const weightNames = addWeights(initializers, name, { shape, data: weights, scales });
  const pad = (kernel - 1) / 2;
  nodes.push({
    op: "QLinearConv",
    inputs: [x.name, ...x.quantization.names, ...weightNames, ...relu6.names, `${name}_bias`],
    outputs: [name],
    attributes: {
      kernel_shape: ints([kernel, kernel]),
      strides: ints([stride, stride]),
      pads: ints([pad, pad, pad, pad]),
      group: int(groups),
    },
  });
  return { name, channels, quantization: relu6, ...RELU_MOMENTS };
}

/** Computes, for each output channel, the scale that gives `DEVIATION` and the bias that centers the sums. */
function computeScalesAndBias(
  weights: Int8Array,
  channels: number,
  x: Activation,
): { scales: Float32Array; bias: Int32Array } {
  const fanIn = weights.length / channels;
  const scales = new Float32Array(channels);
  const bias = new Int32Array(channels);
  for (let channel = 0; channel < channels; channel++) {
    let sum = 0;
    let squares = 0;
    for (const weight of weights.subarray(channel * fanIn, (channel + 1) * fanIn)) {
      sum += weight;
      squares += weight ** 2;
    }
    scales[channel] = DEVIATION / Math.sqrt(squares * x.variance);
    // Removes the mean activation's share. With it, all images would look more alike with each layer.
    bias[channel] = Math.round((-sum * x.mean) / x.quantization.scale);
  }
  return { scales, bias };
}

/** Adds the average pooling and the dense layer, from the last activation to `logits`. */
function addClassifier(builder: GraphBuilder, x: Activation, classes: number): void {
  const pooled = addQuantization(builder, "pooled", POOLED_RANGE, 0);
  const logits = addQuantization(builder, "logits", LOGITS_RANGE, 128);
  const weights = drawWeights(builder.random, x.channels * classes);
  centerColumns(weights, classes);
  const scale = LOGITS_DEVIATION / (WEIGHT_DEVIATION * Math.sqrt(x.channels) * POOLED_DEVIATION);
  const weightNames = addWeights(builder.initializers, "dense", {
    shape: [x.channels, classes],
    data: weights,
    scales: Float32Array.of(scale),
  });
  builder.nodes.push(
    { op: "DequantizeLinear", inputs: [x.name, ...x.quantization.names], outputs: ["features"] },
    { op: "GlobalAveragePool", inputs: ["features"], outputs: ["average"] },
    { op: "Flatten", inputs: ["average"], outputs: ["flat"] },
    { op: "QuantizeLinear", inputs: ["flat", ...pooled.names], outputs: ["pooled"] },
    {
      op: "QLinearMatMul",
      inputs: ["pooled", ...pooled.names, ...weightNames, ...logits.names],
      outputs: ["quantised_logits"],
    },
    { op: "DequantizeLinear", inputs: ["quantised_logits", ...logits.names], outputs: ["logits"] },
  );
}

const drawWeights = (random: Random, count: number): Int8Array =>
  Int8Array.from({ length: count }, () => Math.round((2 * random.next() - 1) * LARGEST_WEIGHT));

/** Adds a layer's weights with one scale, or one for each channel. Returns the names in operator order. */
function addWeights(
  initializers: GraphBuilder["initializers"],
  layer: string,
  {
    shape,
    data,
    scales,
  }: { readonly shape: readonly number[]; readonly data: Int8Array; readonly scales: Float32Array },
): readonly string[] {
  const perChannel = scales.length > 1 ? [scales.length] : [];
  initializers[`${layer}_weight`] = { datatype: "INT8", shape, data };
  initializers[`${layer}_weight_scale`] = { datatype: "FP32", shape: perChannel, data: scales };
  initializers[`${layer}_weight_zero_point`] = {
    datatype: "INT8",
    shape: perChannel,
    data: new Int8Array(scales.length),
  };
  return [`${layer}_weight`, `${layer}_weight_scale`, `${layer}_weight_zero_point`];
}

/** Adds the scale and the zero point of an activation in UINT8. */
function addQuantization(
  { initializers }: GraphBuilder,
  name: string,
  range: number,
  zeroPoint: number,
): QuantizationParameters {
  const scale = range / 255;
  initializers[`${name}_scale`] = { datatype: "FP32", shape: [], data: Float32Array.of(scale) };
  initializers[`${name}_zero_point`] = {
    datatype: "UINT8",
    shape: [],
    data: Uint8Array.of(zeroPoint),
  };
  return { names: [`${name}_scale`, `${name}_zero_point`], scale };
}

/** Subtracts each column's mean from a row-major matrix. A convolution's bias does that; QLinearMatMul has no bias. */
function centerColumns(matrix: Int8Array, columns: number): void {
  const rows = matrix.length / columns;
  for (let column = 0; column < columns; column++) {
    let sum = 0;
    for (let index = column; index < matrix.length; index += columns) sum += matrix[index] ?? 0;
    const mean = Math.round(sum / rows);
    for (let index = column; index < matrix.length; index += columns)
      matrix[index] = (matrix[index] ?? 0) - mean;
  }
}
