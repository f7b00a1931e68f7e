// Weights as 8-bit integers, with one scale for the tensor or one for each output channel.

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
  /** One, or one for each channel; zero points likewise. */
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
 * @param axis of the channels; undefined for one scale for all
 * @param smallestScales by channel (or one), below which scales may not be
 */
export function quantizeWeights(
  { values, dims }: FloatTensor,
  axis: number | undefined,
  scheme: QuantizationScheme,
  smallestScales: readonly number[] = [],
): QuantizedWeights {
  const channels = axis === undefined ? 1 : (dims[axis] ?? 1);
  const inner =
    axis === undefined
      ? values.length
      : dims.slice(axis + 1).reduce((product, size) => product * size, 1);
  const lows = new Float64Array(channels);
  const highs = new Float64Array(channels);
  // Loops over millions of numbers, without objects made in them.
  for (
    let start = 0, channel = 0;
    start < values.length;
    start += inner, channel = (channel + 1) % channels
  ) {
    let low = lows[channel] ?? 0;
    let high = highs[channel] ?? 0;
    for (let index = start; index < start + inner; index++) {
      const value = values[index] ?? 0;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    lows[channel] = low;
    highs[channel] = high;
  }
  // A channel of nothing but zeros takes the finest scale there is: its bias is counted in it.
  const finest = highs.reduce((least, high, channel) => {
    const width = high - (lows[channel] ?? 0);
    return width >= MIN_RANGE_WIDTH && width < least ? width : least;
  }, Number.POSITIVE_INFINITY);
  const nothing = Number.isFinite(finest) ? finest : 1;
  const quantisations = Array.from(highs, (high, channel): QuantizationParams => {
    const low = lows[channel] ?? 0;
    return computeQuantizationParams(
      high - low < MIN_RANGE_WIDTH ? { low: -nothing / 2, high: nothing / 2 } : { low, high },
      scheme,
      smallestScales[channel],
    );
  });
  const scales = Float32Array.from(quantisations, ({ scale }) => scale);
  const zeroPoints = createIntegerArray(scheme.type, channels);
  quantisations.forEach(({ zeroPoint }, channel) => (zeroPoints[channel] = zeroPoint));
  const { lowest, highest } = integerLimits(scheme);
  const data = createIntegerArray(scheme.type, values.length);
  for (
    let start = 0, channel = 0;
    start < values.length;
    start += inner, channel = (channel + 1) % channels
  ) {
    const scale = scales[channel] ?? 1;
    const zeroPoint = zeroPoints[channel] ?? 0;
    for (let index = start; index < start + inner; index++)
      data[index] = quantizeValue(values[index] ?? 0, scale, zeroPoint, lowest, highest);
  }
  return { data, scales, zeroPoints };
}

export const createIntegerArray = (type: IntegerType, length: number): Int8Array | Uint8Array =>
  type === "int8" ? new Int8Array(length) : new Uint8Array(length);
