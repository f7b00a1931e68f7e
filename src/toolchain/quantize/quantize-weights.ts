// Quantizes weights to 8-bit integers, with one scale per tensor or per output channel.

import { readConstantTensor } from "../onnx/constants.ts";
import { readFloats } from "../onnx/tensor-data.ts";
import type { Value } from "../onnx/value-table.ts";
import {
  type IntegerType,
  integerLimits,
  type QuantizationParams,
  computeQuantizationParams,
  type QuantizationScheme,
  MIN_RANGE_WIDTH,
  quantizeValue,
} from "./quantization-scheme.ts";

export interface QuantizedWeights {
  readonly data: Int8Array | Uint8Array;
  /** A single value, or one per channel. Zero points have the same count. */
  readonly scales: Float32Array;
  readonly zeroPoints: Int8Array | Uint8Array;
}

export interface FloatTensor {
  readonly values: Float32Array;
  readonly dims: readonly number[];
}

export function readFloatTensor(value: Value | undefined): FloatTensor | undefined {
  const tensor = value?.type === "float" ? readConstantTensor(value) : undefined;
  return tensor && { values: readFloats(tensor), dims: tensor.dims.map(Number) };
}

/**
 * @param axis dimension of the channels; undefined for a single scale
 * @param minScales lower limits of the scales, per channel or a single one
 */
export function quantizeWeights(
  { values, dims }: FloatTensor,
  axis: number | undefined,
  scheme: QuantizationScheme,
  minScales: readonly number[] = [],
): QuantizedWeights {
  const channels = axis === undefined ? 1 : (dims[axis] ?? 1);
  const channelSize =
    axis === undefined
      ? values.length
      : dims.slice(axis + 1).reduce((product, size) => product * size, 1);
  const lows = new Float64Array(channels);
  const highs = new Float64Array(channels);
  // The loops avoid allocations, because they process millions of numbers.
  for (
    let start = 0, channel = 0;
    start < values.length;
    start += channelSize, channel = (channel + 1) % channels
  ) {
    let low = lows[channel] ?? 0;
    let high = highs[channel] ?? 0;
    for (let index = start; index < start + channelSize; index++) {
      const value = values[index] ?? 0;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    lows[channel] = low;
    highs[channel] = high;
  }
  // A channel of zeros uses the finest scale of the tensor, because its bias is expressed in it.
  const narrowest = highs.reduce((least, high, channel) => {
    const width = high - (lows[channel] ?? 0);
    return width >= MIN_RANGE_WIDTH && width < least ? width : least;
  }, Number.POSITIVE_INFINITY);
  const zeroChannelWidth = Number.isFinite(narrowest) ? narrowest : 1;
  const params = Array.from(highs, (high, channel): QuantizationParams => {
    const low = lows[channel] ?? 0;
    return computeQuantizationParams(
      high - low < MIN_RANGE_WIDTH
        ? { low: -zeroChannelWidth / 2, high: zeroChannelWidth / 2 }
        : { low, high },
      scheme,
      minScales[channel],
    );
  });
  const scales = Float32Array.from(params, ({ scale }) => scale);
  const zeroPoints = createIntegerArray(scheme.type, channels);
  params.forEach(({ zeroPoint }, channel) => (zeroPoints[channel] = zeroPoint));
  const { lowest, highest } = integerLimits(scheme);
  const data = createIntegerArray(scheme.type, values.length);
  for (
    let start = 0, channel = 0;
    start < values.length;
    start += channelSize, channel = (channel + 1) % channels
  ) {
    const scale = scales[channel] ?? 1;
    const zeroPoint = zeroPoints[channel] ?? 0;
    for (let index = start; index < start + channelSize; index++)
      data[index] = quantizeValue(values[index] ?? 0, scale, zeroPoint, lowest, highest);
  }
  return { data, scales, zeroPoints };
}

export const createIntegerArray = (type: IntegerType, length: number): Int8Array | Uint8Array =>
  type === "int8" ? new Int8Array(length) : new Uint8Array(length);
