// A convolutional model whose weights are most of its work: five convolutions before three large dense layers, in FP32, with
// random weights. One row at a time it reads all of them for each row; a batch reads them once.
// Krizhevsky et al. 2012, "ImageNet Classification with Deep Convolutional Neural Networks"; channels as in his "One weird
// trick for parallelizing convolutional neural networks", 2014, times `width`.

import { encodeModel, ints, type OnnxGraph, type OnnxNode } from "./onnx-writer.ts";
import { createRandom } from "./random.ts";

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
  readonly pooled?: boolean;
}

const CONVOLUTIONS: readonly Convolution[] = [
  { channels: 64, kernel: 11, stride: 4, pad: 2, pooled: true },
  { channels: 192, kernel: 5, pad: 2, pooled: true },
  { channels: 384, kernel: 3, pad: 1 },
  { channels: 256, kernel: 3, pad: 1 },
  { channels: 256, kernel: 3, pad: 1, pooled: true },
];
const [POOL_KERNEL, POOL_STRIDE] = [3, 2];

/**
 * The bytes of an .onnx file. Input `pixels`: FP32 [N, 3, resolution, resolution], from -1 to 1. Output `logits`: FP32 [N, classes].
 * The same options give the same bytes.
 */
export function createAlexNet({
  seed,
  width,
  hidden,
  resolution,
  classes,
}: AlexNetOptions): Uint8Array {
  const random = createRandom(seed);
  const nodes: OnnxNode[] = [];
  const initializers: Record<string, OnnxGraph["initializers"][string]> = {};
  let [x, channels, size] = ["pixels", 3, resolution];

  const add = (
    op: string,
    name: string,
    inputs: readonly string[],
    attributes: OnnxNode["attributes"] = {},
  ) => {
    nodes.push({ op, inputs, outputs: [name], attributes });
    x = name;
  };
  /** Uniform, and of such a size that activations neither grow nor vanish: He et al. 2015, "Delving Deep into Rectifiers". */
  const addWeights = (name: string, shape: readonly number[], fanIn: number) => {
    const bound = Math.sqrt(6 / fanIn);
    const data = Float32Array.from(
      { length: shape.reduce((product, count) => product * count, 1) },
      () => (2 * random.next() - 1) * bound,
    );
    initializers[name] = { datatype: "FP32", shape, data };
    return name;
  };
  const addDense = (name: string, inputs: number, units: number) => {
    add("Gemm", name, [x, addWeights(`${name}_weight`, [inputs, units], inputs)]);
    return units;
  };
  const slide = (kernel: number, stride: number, pad: number) => {
    size = Math.floor((size + 2 * pad - kernel) / stride) + 1;
    return {
      kernel_shape: ints([kernel, kernel]),
      strides: ints([stride, stride]),
      pads: ints([pad, pad, pad, pad]),
    };
  };

  CONVOLUTIONS.forEach(
    ({ channels: paperChannels, kernel, stride = 1, pad, pooled = false }, index) => {
      const outputs = Math.round(paperChannels * width);
      const weights = addWeights(
        `conv_${index}_weight`,
        [outputs, channels, kernel, kernel],
        channels * kernel ** 2,
      );
      add("Conv", `conv_${index}`, [x, weights], slide(kernel, stride, pad));
      add("Relu", `conv_${index}_relu`, [x]);
      if (pooled) add("MaxPool", `pool_${index}`, [x], slide(POOL_KERNEL, POOL_STRIDE, 0));
      channels = outputs;
    },
  );
  add("Flatten", "features", [x]);
  let units = channels * size ** 2;
  for (const name of ["dense_0", "dense_1"]) {
    units = addDense(name, units, hidden);
    add("Relu", `${name}_relu`, [x]);
  }
  addDense("logits", units, classes);

  return encodeModel({
    name: "alexnet",
    opset: 13,
    inputs: [{ name: "pixels", datatype: "FP32", shape: ["batch", 3, resolution, resolution] }],
    outputs: [{ name: "logits", datatype: "FP32", shape: ["batch", classes] }],
    nodes,
    initializers,
  });
}
