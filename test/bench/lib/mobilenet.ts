// A convolutional model of the usual size for benchmarks: MobileNetV1 in INT8, with random weights.
// Howard et al. 2017, "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications", table 1.

import { encodeModel, int, ints, type OnnxGraph, type OnnxNode } from "./onnx-writer.ts";
import { createRandom } from "./random.ts";

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
/** Averages of many positions are well below 6. They differ by about 0.3 from channel to channel, which makes logits of about 2. */
const [POOLED_RANGE, POOLED_DEVIATION, LOGITS_RANGE, LOGITS_DEVIATION] = [3, 0.3, 24, 2];

/** A quantized activation and its expected moments over images and positions, which scale the next layer. */
interface Activation {
  readonly name: string;
  readonly channels: number;
  readonly quantisation: QuantizationParameters;
  readonly mean: number;
  readonly variance: number;
}

interface QuantizationParameters {
  /** Names of the two constants, in operator order. */
  readonly names: readonly [scale: string, zeroPoint: string];
  readonly scale: number;
}

/**
 * The bytes of an .onnx file. Input `pixels`: FP32 [N, 3, resolution, resolution], from -1 to 1. Output `logits`: FP32 [N, classes].
 * The same options give the same bytes. About half of all activations are 0 and 0.2 % saturate, at any depth, so that
 * different images have different logits.
 */
export function createMobileNet({
  seed,
  width,
  resolution,
  classes,
}: MobileNetOptions): Uint8Array {
  const random = createRandom(seed);
  const nodes: OnnxNode[] = [];
  const initializers: Record<string, OnnxGraph["initializers"][string]> = {};

  const drawWeights = (count: number) =>
    Int8Array.from({ length: count }, () => Math.round((2 * random.next() - 1) * LARGEST_WEIGHT));
  const addWeights = (
    layer: string,
    shape: readonly number[],
    data: Int8Array,
    scales: Float32Array,
  ) => {
    const perChannel = scales.length > 1 ? [scales.length] : [];
    initializers[`${layer}_weight`] = { datatype: "INT8", shape, data };
    initializers[`${layer}_weight_scale`] = { datatype: "FP32", shape: perChannel, data: scales };
    initializers[`${layer}_weight_zero_point`] = {
      datatype: "INT8",
      shape: perChannel,
      data: new Int8Array(scales.length),
    };
    return [`${layer}_weight`, `${layer}_weight_scale`, `${layer}_weight_zero_point`];
  };
  const addQuantisation = (
    name: string,
    range: number,
    zeroPoint: number,
  ): QuantizationParameters => {
    initializers[`${name}_scale`] = {
      datatype: "FP32",
      shape: [],
      data: Float32Array.of(range / 255),
    };
    initializers[`${name}_zero_point`] = {
      datatype: "UINT8",
      shape: [],
      data: Uint8Array.of(zeroPoint),
    };
    return { names: [`${name}_scale`, `${name}_zero_point`], scale: range / 255 };
  };

  /** ReLU6 is the range of its output: what is below 0 or above 6 saturates. */
  const relu6 = addQuantisation("relu6", 6, 0);
  /** Mean of a normal distribution that is truncated at 0. */
  const mean = DEVIATION / Math.sqrt(2 * Math.PI);
  const moments = { mean, variance: DEVIATION ** 2 / 2 - mean ** 2 };

  const addConvolution = (
    name: string,
    x: Activation,
    channels: number,
    kernel: number,
    stride = 1,
    groups = 1,
  ): Activation => {
    const shape = [channels, x.channels / groups, kernel, kernel];
    const fanIn = (x.channels / groups) * kernel * kernel;
    const weights = drawWeights(channels * fanIn);
    const scales = new Float32Array(channels);
    const bias = new Int32Array(channels);
    for (let channel = 0; channel < channels; channel++) {
      let [sum, squares] = [0, 0];
      for (const weight of weights.subarray(channel * fanIn, (channel + 1) * fanIn)) {
        sum += weight;
        squares += weight ** 2;
      }
      scales[channel] = DEVIATION / Math.sqrt(squares * x.variance);
      // Takes the mean activation's share out. With it, all images would look more alike with each layer.
      bias[channel] = Math.round((-sum * x.mean) / x.quantisation.scale);
    }
    initializers[`${name}_bias`] = { datatype: "INT32", shape: [channels], data: bias };
    const pad = (kernel - 1) / 2;
    nodes.push({
      op: "QLinearConv",
      inputs: [
        x.name,
        ...x.quantisation.names,
        ...addWeights(name, shape, weights, scales),
        ...relu6.names,
        `${name}_bias`,
      ],
      outputs: [name],
      attributes: {
        kernel_shape: ints([kernel, kernel]),
        strides: ints([stride, stride]),
        pads: ints([pad, pad, pad, pad]),
        group: int(groups),
      },
    });
    return { name, channels, quantisation: relu6, ...moments };
  };

  const image = addQuantisation("image", 2, 128);
  nodes.push({ op: "QuantizeLinear", inputs: ["pixels", ...image.names], outputs: ["image"] });
  const scaled = (channels: number) => Math.max(8, Math.round(channels * width));
  let x: Activation = { name: "image", channels: 3, quantisation: image, mean: 0, variance: 1 / 3 };
  x = addConvolution("stem", x, scaled(32), 3, 2);
  BLOCKS.forEach(([stride, channels], index) => {
    x = addConvolution(`depthwise_${index}`, x, x.channels, 3, stride, x.channels);
    x = addConvolution(`pointwise_${index}`, x, scaled(channels), 1);
  });

  const pooled = addQuantisation("pooled", POOLED_RANGE, 0);
  const logits = addQuantisation("logits", LOGITS_RANGE, 128);
  const dense = drawWeights(x.channels * classes);
  centerColumns(dense, classes);
  const denseScale =
    LOGITS_DEVIATION / (WEIGHT_DEVIATION * Math.sqrt(x.channels) * POOLED_DEVIATION);
  const denseNames = addWeights("dense", [x.channels, classes], dense, Float32Array.of(denseScale));
  nodes.push(
    { op: "DequantizeLinear", inputs: [x.name, ...x.quantisation.names], outputs: ["features"] },
    { op: "GlobalAveragePool", inputs: ["features"], outputs: ["average"] },
    { op: "Flatten", inputs: ["average"], outputs: ["flat"] },
    { op: "QuantizeLinear", inputs: ["flat", ...pooled.names], outputs: ["pooled"] },
    {
      op: "QLinearMatMul",
      inputs: ["pooled", ...pooled.names, ...denseNames, ...logits.names],
      outputs: ["quantised_logits"],
    },
    { op: "DequantizeLinear", inputs: ["quantised_logits", ...logits.names], outputs: ["logits"] },
  );
  return encodeModel({
    name: "mobilenet_v1",
    opset: 13,
    inputs: [{ name: "pixels", datatype: "FP32", shape: ["batch", 3, resolution, resolution] }],
    outputs: [{ name: "logits", datatype: "FP32", shape: ["batch", classes] }],
    nodes,
    initializers,
  });
}

/** Takes each column's mean out of a row-major matrix: what the bias does in a convolution, and QLinearMatMul has none. */
function centerColumns(matrix: Int8Array, columns: number): void {
  const rows = matrix.length / columns;
  for (let column = 0; column < columns; column++) {
    let sum = 0;
    for (let at = column; at < matrix.length; at += columns) sum += matrix[at] ?? 0;
    const mean = Math.round(sum / rows);
    for (let at = column; at < matrix.length; at += columns) matrix[at] = (matrix[at] ?? 0) - mean;
  }
}
