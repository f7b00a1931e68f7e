// Equalizes weight ranges across layers. Channels with very different weights lose precision under
// a common scale. If one layer's channels lead directly into another layer, a factor can move
// between them. The network stays the same, and the channels of both layers become similar. Nagel
// et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction", section
// 4.1.

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
  /**
   * Replaces ReLU6 by ReLU, because its bound would clip rescaled channels. This changes the
   * network's function.
   */
  readonly replaceRelu6?: boolean | undefined;
}

export interface EqualizedPair {
  readonly first: string;
  readonly second: string;
  /** Largest factor that divided or multiplied a channel. */
  readonly largestFactor: number;
}

/** Layers form chains of pairs, so the factors converge over several rounds. */
const MAX_ROUNDS = 20;
const CONVERGED_FACTOR = 1.01;
/** Larger factors come from channels with hardly any influence. */
const MAX_FACTOR = 1_000;

/**
 * Changes the weights and biases of an FP32 graph.
 * @returns the pairs of layers, in the graph's order
 */
export function equalizeLayers(model: Model, options: EqualizeOptions = {}): EqualizedPair[] {
  prepareGraph(model);
  const table = buildValueTable(model);
  const constants = new Map<Value, ScaledConstant>();
  const findConstant: FindScaledConstant = (
    value,
    node,
    factor,
    values = readFloatConstant(value),
  ) => {
    const existing = constants.get(value);
    const tensor = readConstantTensor(value);
    const hasMatchingSize =
      tensor !== undefined &&
      tensor.dims.reduce((product, size) => product * Number(size), 1) === values?.length;
    // A constant with other readers must not change.
    if (existing !== undefined || value.uses.length !== 1 || !hasMatchingSize) return existing;
    const constant = { tensor, node, factor, values: Float64Array.from(values) };
    constants.set(value, constant);
    return constant;
  };
  const pairs = model.graph.node.flatMap((node) => {
    const layer = findQuantizableLayer(table, node);
    return layer === undefined || "reason" in layer
      ? []
      : (findLayerPair(table, layer, options.replaceRelu6 === true, findConstant) ?? []);
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
  for (const { tensor, node, factor, values } of constants.values()) {
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

/**
 * Gives both layers' weights the same largest magnitude per channel.
 * @returns the divisors of the first layer's channels
 */
function equalizePair({ channels, firstWeights, secondWeights, biases }: LayerPair): Float64Array {
  const [firstMaxima, secondMaxima] = [
    maxMagnitudeByChannel(firstWeights, channels),
    maxMagnitudeByChannel(secondWeights, channels),
  ];
  const factors = firstMaxima.map((first, channel) => {
    const second = secondMaxima[channel] ?? 0;
    return first > 0 && second > 0
      ? Math.min(MAX_FACTOR, Math.max(1 / MAX_FACTOR, Math.sqrt(first / second)))
      : 1;
  });
  const factorAt = (channel: number) => factors[channel] ?? 1;
  firstWeights.values.forEach(
    (value, index) =>
      (firstWeights.values[index] = value / factorAt(firstWeights.channelOf(index))),
  );
  for (const { values } of biases)
    values.forEach((value, channel) => (values[channel] = value / factorAt(channel)));
  secondWeights.values.forEach(
    (value, index) =>
      (secondWeights.values[index] = value * factorAt(secondWeights.channelOf(index))),
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
