// AlexNet in FP32 with random weights: a convolutional model that spends most of its time on reading weights. A single row
// reads all of them; a batch reads them once. Five convolutions precede three large dense layers.
// Krizhevsky et al. 2012, "ImageNet Classification with Deep Convolutional Neural Networks"; channels as in his "One weird
// trick for parallelizing convolutional neural networks", 2014, times `width`.

import { encodeModel, ints, type OnnxGraph, type OnnxNode } from "./onnx-writer.ts";
import { createRandom, type Random } from "./random.ts";

export interface AlexNetOptions {
  readonly seed: number;
  /** Channel multiplier of the convolutions; 1 is the paper's. */
  readonly width: number;
  /** Units of each of the two hidden dense layers; the paper has 4096. */
  readonly hidden: number;
  /** Height and width of the image, in pixels; at least 64. */
  readonly resolution: number;
  readonly classes: number;
}

interface Convolution {
  readonly channels: number;
  readonly kernel: number;
  readonly stride?: number;
  readonly pad: number;
  readonly isPooled?: boolean;
}

const CONVOLUTIONS: readonly Convolution[] = [
  { channels: 64, kernel: 11, stride: 4, pad: 2, isPooled: true },
  { channels: 192, kernel: 5, pad: 2, isPooled: true },
  { channels: 384, kernel: 3, pad: 1 },
  { channels: 256, kernel: 3, pad: 1 },
  { channels: 256, kernel: 3, pad: 1, isPooled: true },
];
const POOL_KERNEL = 3;
const POOL_STRIDE = 2;

/** The graph under construction; layers are appended to `x`, the latest output. */
interface GraphBuilder {
  readonly random: Random;
  readonly nodes: OnnxNode[];
  readonly initializers: Record<string, OnnxGraph["initializers"][string]>;
  x: string;
  channels: number;
  /** Height and width of `x`, in pixels. */
  size: number;
}

/**
 * Creates the bytes of an .onnx file. Input `pixels`: FP32 [N, 3, resolution, resolution], from -1 to 1. Output `logits`: FP32 [N, classes].
 * The same options give the same bytes.
 */
export function createAlexNet({
  seed,
  width,
  hidden,
  resolution,
  classes,
}: AlexNetOptions): Uint8Array {
  const builder: GraphBuilder = {
    random: createRandom(seed),
    nodes: [],
    initializers: {},
    x: "pixels",
    channels: 3,
    size: resolution,
  };
  CONVOLUTIONS.forEach((convolution, index) =>
    addConvolution(builder, index, {
      ...convolution,
      channels: Math.round(convolution.channels * width),
    }),
  );
  addNode(builder, "Flatten", "features", [builder.x]);
  let units = builder.channels * builder.size ** 2;
  for (const name of ["dense_0", "dense_1"]) {
    addDense(builder, name, units, hidden);
    addNode(builder, "Relu", `${name}_relu`, [builder.x]);
    units = hidden;
  }
  addDense(builder, "logits", units, classes);

  return encodeModel({
    name: "alexnet",
    opset: 13,
    inputs: [{ name: "pixels", datatype: "FP32", shape: ["batch", 3, resolution, resolution] }],
    outputs: [{ name: "logits", datatype: "FP32", shape: ["batch", classes] }],
    nodes: builder.nodes,
    initializers: builder.initializers,
  });
}

function addNode(
  builder: GraphBuilder,
  op: string,
  name: string,
  inputs: readonly string[],
  attributes: OnnxNode["attributes"] = {},
): void {
  builder.nodes.push({ op, inputs, outputs: [name], attributes });
  builder.x = name;
}

/** Adds a convolution with ReLU and, for `isPooled`, a maximum pooling. */
function addConvolution(
  builder: GraphBuilder,
  index: number,
  { channels, kernel, stride = 1, pad, isPooled = false }: Convolution,
): void {
  const weights = addWeights(
    builder,
    `conv_${index}_weight`,
    [channels, builder.channels, kernel, kernel],
    builder.channels * kernel ** 2,
  );
  const windows = slideWindow(builder, kernel, stride, pad);
  addNode(builder, "Conv", `conv_${index}`, [builder.x, weights], windows);
  addNode(builder, "Relu", `conv_${index}_relu`, [builder.x]);
  if (isPooled) {
    const poolWindows = slideWindow(builder, POOL_KERNEL, POOL_STRIDE, 0);
    addNode(builder, "MaxPool", `pool_${index}`, [builder.x], poolWindows);
  }
  builder.channels = channels;
}

function addDense(builder: GraphBuilder, name: string, inputs: number, units: number): void {
  const weights = addWeights(builder, `${name}_weight`, [inputs, units], inputs);
  addNode(builder, "Gemm", name, [builder.x, weights]);
}

/**
 * Adds uniform weights. Their bound keeps activations from growing or vanishing: He et al. 2015, "Delving Deep into
 * Rectifiers".
 */
function addWeights(
  { random, initializers }: GraphBuilder,
  name: string,
  shape: readonly number[],
  fanIn: number,
): string {
  const bound = Math.sqrt(6 / fanIn);
  const data = Float32Array.from(
    { length: shape.reduce((product, count) => product * count, 1) },
    () => (2 * random.next() - 1) * bound,
  );
  initializers[name] = { datatype: "FP32", shape, data };
  return name;
}

/** Shrinks `size` to the window's number of positions. Returns the window's attributes. */
function slideWindow(
  builder: GraphBuilder,
  kernel: number,
  stride: number,
  pad: number,
): OnnxNode["attributes"] {
  builder.size = Math.floor((builder.size + 2 * pad - kernel) / stride) + 1;
  return {
    kernel_shape: ints([kernel, kernel]),
    strides: ints([stride, stride]),
    pads: ints([pad, pad, pad, pad]),
  };
}
