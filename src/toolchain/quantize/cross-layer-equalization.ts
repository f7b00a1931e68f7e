// Channels of very different weights lose most to a common scale. Where one layer's channels go straight into another, a factor
// can move from the one to the other: the network stays the same, and both layers' channels become alike.
// Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.1.

import { readFloatConstant, readConstantTensor } from "../onnx/constants.ts";
import type { Model } from "../onnx/model-file.ts";
import { isOnnxOp, removeAttribute } from "../onnx/nodes.ts";
import { replaceTensorData } from "../onnx/tensor-data.ts";
import { type Value, buildValueTable } from "../onnx/value-table.ts";
import {
  type LayerPair,
  findLayerPair,
  type ScaledConstant,
  type FindScaledConstant,
} from "./layer-pairs.ts";
import { findQuantizableLayer } from "./quantizable-layers.ts";
import { prepareGraph } from "./static-quantization.ts";

export interface EqualizeOptions {
  /** ReLU6, which channels of other sizes would be cut off by, becomes ReLU. This changes what the network computes. */
  readonly replaceRelu6?: boolean | undefined;
}

export interface EqualizedPair {
  readonly first: string;
  readonly second: string;
  /** The largest factor by which a channel was divided or multiplied. */
  readonly largestFactor: number;
}

/** Pairs form chains, along which factors have to settle. */
const MAX_ROUNDS = 20;
const CONVERGED_FACTOR = 1.01;
/** Factors beyond it come from channels that hardly count. */
const MAX_FACTOR = 1_000;

/** Changes the weights and biases of a graph in FP32. @returns the pairs of layers, in the graph's order */
export function equalizeLayers(model: Model, options: EqualizeOptions = {}): EqualizedPair[] {
  prepareGraph(model);
  const table = buildValueTable(model);
  const parts = new Map<Value, ScaledConstant>();
  const partOf: FindScaledConstant = (value, node, factor, values = readFloatConstant(value)) => {
    const known = parts.get(value);
    const tensor = readConstantTensor(value);
    const fits =
      tensor !== undefined &&
      tensor.dims.reduce((product, size) => product * Number(size), 1) === values?.length;
    if (known !== undefined || value.uses.length !== 1 || !fits) return known; // what others read as well is not ours to change
    const part = { tensor, node, factor, values: Float64Array.from(values) };
    parts.set(value, part);
    return part;
  };
  const pairs = model.graph.node.flatMap((node) => {
    const layer = findQuantizableLayer(table, node);
    return layer === undefined || "reason" in layer
      ? []
      : (findLayerPair(table, layer, options.replaceRelu6 === true, partOf) ?? []);
  });

  const totals = pairs.map(({ channels }) => new Float64Array(channels).fill(1));
  for (
    let round = 0, largest = Number.POSITIVE_INFINITY;
    round < MAX_ROUNDS && largest > CONVERGED_FACTOR;
    round++
  ) {
    largest = 1;
    for (const [position, pair] of pairs.entries()) {
      for (const [channel, factor] of equalizePair(pair).entries()) {
        largest = Math.max(largest, factor, 1 / factor);
        const total = totals[position];
        if (total !== undefined) total[channel] = (total[channel] ?? 1) * factor;
      }
    }
  }
  for (const { tensor, node, factor, values } of parts.values()) {
    replaceTensorData(tensor, "float", Float32Array.from(values));
    if (isOnnxOp(node, "Gemm")) removeAttribute(node, factor);
  }
  for (const clip of pairs.flatMap(({ clips }) => clips)) {
    clip.opType = "Relu";
    clip.input = clip.input.slice(0, 1);
  }
  return pairs.map(({ first, second }, position) => ({
    first,
    second,
    largestFactor:
      totals[position]?.reduce((largest, factor) => Math.max(largest, factor, 1 / factor), 1) ?? 1,
  }));
}

/** Gives both layers' weights of each channel the same largest magnitude. @returns what the first layer's were divided by */
function equalizePair({
  channels,
  firstWeights: out,
  secondWeights: into,
  biases,
}: LayerPair): Float64Array {
  const [given, taken] = [
    maxMagnitudeByChannel(out, channels),
    maxMagnitudeByChannel(into, channels),
  ];
  const factors = given.map((one, channel) => {
    const other = taken[channel] ?? 0;
    return one > 0 && other > 0
      ? Math.min(MAX_FACTOR, Math.max(1 / MAX_FACTOR, Math.sqrt(one / other)))
      : 1;
  });
  const factorAt = (channel: number) => factors[channel] ?? 1;
  out.values.forEach(
    (value, index) => (out.values[index] = value / factorAt(out.channelOf(index))),
  );
  for (const { values } of biases)
    values.forEach((value, channel) => (values[channel] = value / factorAt(channel)));
  into.values.forEach(
    (value, index) => (into.values[index] = value * factorAt(into.channelOf(index))),
  );
  return factors;
}

function maxMagnitudeByChannel(
  { values, channelOf }: LayerPair["firstWeights"],
  channels: number,
): Float64Array {
  const largest = new Float64Array(channels);
  values.forEach((value, index) => {
    const channel = channelOf(index);
    largest[channel] = Math.max(largest[channel] ?? 0, Math.abs(value));
  });
  return largest;
}
