// Real numbers as 8-bit integers: real = scale * (integer - zeroPoint), as QuantizeLinear and DequantizeLinear have it
// (https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html).

export type IntegerType = "uint8" | "int8";

/** The real numbers that are to be expressed. */
export interface ValueRange {
  readonly low: number;
  readonly high: number;
}

export interface QuantizationScheme {
  readonly type: IntegerType;
  /** The zero point is in the middle, and as many integers are used above it as below. */
  readonly symmetric: boolean;
  /** 7 of the 8 bits, for x86 without VNNI: it adds pairs of products in 16 bits, where 8 bits may saturate. */
  readonly reduceRange?: boolean;
}

export interface QuantizationParams {
  readonly type: IntegerType;
  /** An FP32 number above 0. */
  readonly scale: number;
  readonly zeroPoint: number;
}

/** FP32's smallest normal number: what is below has fewer bits, and some processors take it for 0. */
const MIN_SCALE = 2 ** -126;
/** What is narrower is taken for nothing but 0. */
export const MIN_RANGE_WIDTH = 256 * MIN_SCALE;

export const INTEGER_LIMITS: Readonly<
  Record<IntegerType, readonly [lowest: number, highest: number]>
> = {
  uint8: [0, 255],
  int8: [-128, 127],
};

/** The integers that a scheme uses, and the zero point of a symmetric one. */
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

/** With 0 in its range, which has to be exact: padding and ReLU make many. */
export function includeZero({ low, high }: ValueRange): ValueRange {
  return { low: Math.min(low, 0), high: Math.max(high, 0) };
}

/** The smallest range that holds both. */
export const unionRange = (one: ValueRange, other: ValueRange): ValueRange => ({
  low: Math.min(one.low, other.low),
  high: Math.max(one.high, other.high),
});

/**
 * The finest steps with which every number of the range, and 0, is at most half a step from one that can be expressed.
 * @param range of finite numbers
 * @param smallestScale below which the scale may not be
 */
export function computeQuantizationParams(
  range: ValueRange,
  scheme: QuantizationScheme,
  smallestScale = MIN_SCALE,
): QuantizationParams {
  const { low, high } = includeZero(range);
  const { lowest, highest, middle } = integerLimits(scheme);
  const steps = scheme.symmetric ? highest - middle : highest - lowest;
  const width = scheme.symmetric ? Math.max(-low, high) : high - low;
  // A range of nothing but 0 has any scale.
  const scale = Math.fround(
    Math.max(width < MIN_RANGE_WIDTH ? 1 / steps : width / steps, smallestScale),
  );
  const zeroPoint = scheme.symmetric
    ? middle
    : Math.min(highest, Math.max(lowest, Math.round(lowest - low / scale)));
  return { type: scheme.type, scale, zeroPoint };
}

/** The nearest integer; the first or last where the number is out of range. */
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
