// Weights as 8-bit integers, with one scale for the tensor or one for each output channel.

import { constantTensorOf } from "../onnx/constants.ts";
import { floatsOf } from "../onnx/tensors.ts";
import type { Value } from "../onnx/values.ts";
import {
  type IntegerType,
  integersOf,
  type Quantisation,
  quantisationOf,
  type Scheme,
  SMALLEST_WIDTH,
  toInteger,
} from "./scheme.ts";

export interface QuantisedWeights {
  readonly data: Int8Array | Uint8Array;
  /** One, or one for each channel; zero points likewise. */
  readonly scales: Float32Array;
  readonly zeroPoints: Int8Array | Uint8Array;
}

export interface FloatTensor {
  readonly values: Float32Array;
  readonly dims: readonly number[];
}

export function floatTensorOf(value: Value | undefined): FloatTensor | undefined {
  const tensor = value?.type === "float" ? constantTensorOf(value) : undefined;
  return tensor && { values: floatsOf(tensor), dims: tensor.dims.map(Number) };
}

/**
 * @param axis of the channels; undefined for one scale for all
 * @param smallestScales by channel (or one), below which scales may not be
 */
export function quantiseWeights(
  { values, dims }: FloatTensor,
  axis: number | undefined,
  scheme: Scheme,
  smallestScales: readonly number[] = [],
): QuantisedWeights {
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
    return width >= SMALLEST_WIDTH && width < least ? width : least;
  }, Number.POSITIVE_INFINITY);
  const nothing = Number.isFinite(finest) ? finest : 1;
  const quantisations = Array.from(highs, (high, channel): Quantisation => {
    const low = lows[channel] ?? 0;
    return quantisationOf(
      high - low < SMALLEST_WIDTH ? { low: -nothing / 2, high: nothing / 2 } : { low, high },
      scheme,
      smallestScales[channel],
    );
  });
  const scales = Float32Array.from(quantisations, ({ scale }) => scale);
  const zeroPoints = integerArray(scheme.type, channels);
  quantisations.forEach(({ zeroPoint }, channel) => (zeroPoints[channel] = zeroPoint));
  const { lowest, highest } = integersOf(scheme);
  const data = integerArray(scheme.type, values.length);
  for (
    let start = 0, channel = 0;
    start < values.length;
    start += inner, channel = (channel + 1) % channels
  ) {
    const scale = scales[channel] ?? 1;
    const zeroPoint = zeroPoints[channel] ?? 0;
    for (let index = start; index < start + inner; index++)
      data[index] = toInteger(values[index] ?? 0, scale, zeroPoint, lowest, highest);
  }
  return { data, scales, zeroPoints };
}

export const integerArray = (type: IntegerType, length: number): Int8Array | Uint8Array =>
  type === "int8" ? new Int8Array(length) : new Uint8Array(length);
