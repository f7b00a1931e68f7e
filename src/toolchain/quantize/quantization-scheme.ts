// Maps real numbers to 8-bit integers: real = scale * (integer - zeroPoint), as in QuantizeLinear
// and DequantizeLinear (https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html).

export type IntegerType = "uint8" | "int8";

/** Range of real numbers that the integers must represent. */
export interface ValueRange {
  readonly low: number;
  readonly high: number;
}

export interface QuantizationScheme {
  readonly type: IntegerType;
  /** Places the zero point in the middle, with equally many integers above and below it. */
  readonly symmetric: boolean;
  /**
   * Uses 7 of the 8 bits, for x86 without VNNI, which adds pairs of products in 16 bits and may
   * saturate.
   */
  readonly reduceRange?: boolean;
}

export interface QuantizationParams {
  readonly type: IntegerType;
  /** A positive FP32 number. */
  readonly scale: number;
  readonly zeroPoint: number;
}

/**
 * FP32's smallest normal number. Smaller ones have fewer bits, and some processors flush them to 0.
 */
const MIN_SCALE = 2 ** -126;
/** Narrower ranges count as 0 only. */
export const MIN_RANGE_WIDTH = 256 * MIN_SCALE;

export const INTEGER_LIMITS: Readonly<
  Record<IntegerType, readonly [lowest: number, highest: number]>
> = {
  uint8: [0, 255],
  int8: [-128, 127],
};

/** Returns the integers that a scheme uses, and the zero point of a symmetric scheme. */
export function integerLimits({ type, symmetric, reduceRange = false }: QuantizationScheme): {
  readonly lowest: number;
  readonly highest: number;
  readonly middle: number;
} {
  const bits = reduceRange ? 7 : 8;
  const half = 2 ** (bits - 1);
  const middle = type === "int8" ? 0 : half;
  return {
    lowest: symmetric ? middle - half + 1 : middle - half,
    highest: middle + half - 1,
    middle,
  };
}

/** Extends a range to 0, which must be exact because padding and ReLU produce it often. */
export function includeZero({ low, high }: ValueRange): ValueRange {
  return { low: Math.min(low, 0), high: Math.max(high, 0) };
}

/** Returns the smallest range that contains both. */
export const unionRange = (first: ValueRange, second: ValueRange): ValueRange => ({
  low: Math.min(first.low, second.low),
  high: Math.max(first.high, second.high),
});

/**
 * Finds the smallest scale that represents every number of the range, and 0, within half a step.
 * @param range finite numbers
 * @param minScale lower limit of the scale
 */
export function computeQuantizationParams(
  range: ValueRange,
  scheme: QuantizationScheme,
  minScale = MIN_SCALE,
): QuantizationParams {
  const { low, high } = includeZero(range);
  const { lowest, highest, middle } = integerLimits(scheme);
  const steps = scheme.symmetric ? highest - middle : highest - lowest;
  const width = scheme.symmetric ? Math.max(-low, high) : high - low;
  // Any scale fits a range that contains only 0.
  const scale = Math.fround(
    Math.max(width < MIN_RANGE_WIDTH ? 1 / steps : width / steps, minScale),
  );
  const zeroPoint = scheme.symmetric
    ? middle
    : Math.min(highest, Math.max(lowest, Math.round(lowest - low / scale)));
  return { type: scheme.type, scale, zeroPoint };
}

/** Rounds to the nearest integer, and clamps to the limits. */
export function quantizeValue(
  value: number,
  scale: number,
  zeroPoint: number,
  lowest: number,
  highest: number,
): number {
  const integer = Math.round(value / scale) + zeroPoint;
  return integer < lowest ? lowest : integer > highest ? highest : integer;
}
