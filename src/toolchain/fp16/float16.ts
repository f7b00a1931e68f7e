// Encodes and decodes FP16 numbers (IEEE 754 binary16) as 16-bit patterns.

import { byteView } from "../../core/bytes.ts";

export interface Float16Encoding {
  readonly bits: Uint16Array;
  /** Number of finite values that would overflow to infinity and became ±65,504. */
  readonly clampedCount: number;
  /**
   * Number of values that would underflow to 0 and became ±2^-24, because a divisor or logarithm
   * argument must not vanish.
   */
  readonly raisedCount: number;
}

const INFINITY = 0x7c00;
const MAX_FINITE = 0x7bff;
const SMALLEST_NORMAL = 2 ** -14;

/** Rounds to the nearest number, ties to even. */
export function encodeFloat16(values: Float32Array): Float16Encoding {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const bits = new Uint16Array(values.length);
  let [clampedCount, raisedCount] = [0, 0];
  for (let index = 0; index < words.length; index++) {
    const word = words[index] ?? 0;
    const magnitude = word & 0x7fff_ffff;
    let pattern = nearestFloat16(magnitude, Math.abs(values[index] ?? 0));
    if (pattern === INFINITY && magnitude < 0x7f80_0000) {
      pattern = MAX_FINITE;
      clampedCount++;
    } else if (pattern === 0 && magnitude !== 0) {
      pattern = 1;
      raisedCount++;
    }
    bits[index] = ((word >>> 16) & 0x8000) | pattern;
  }
  return { bits, clampedCount, raisedCount };
}

/** @param word bits of `value`, which is not negative */
function nearestFloat16(word: number, value: number): number {
  // The input is NaN.
  if (word > 0x7f80_0000) return 0x7e00;
  if (value >= SMALLEST_NORMAL) {
    const rounded = word + 0xfff + ((word >>> 13) & 1);
    // The exponent's bias is 15 instead of 127.
    return Math.min((rounded - (112 << 23)) >>> 13, INFINITY);
  }
  // This product is exact.
  const steps = value * 2 ** 24;
  const floor = Math.floor(steps);
  return steps - floor > 0.5 || (steps - floor === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}

export function decodeFloat16(bits: Uint16Array): Float32Array {
  return Float32Array.from(bits, (pattern) => {
    const [sign, exponent, fraction] = [
      pattern & 0x8000 ? -1 : 1,
      (pattern >>> 10) & 0x1f,
      pattern & 0x3ff,
    ];
    if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : Number.NaN;
    return (
      sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15))
    );
  });
}

/** Tells whether FP16 represents the number with its full 11 bits of precision. */
export const isNormalFloat16 = (value: number): boolean =>
  Math.abs(value) >= SMALLEST_NORMAL && Math.abs(value) <= 65_504;

/** Returns the bytes of the patterns, as a tensor stores them. */
export const float16Bytes = ({ bits }: Float16Encoding): Uint8Array => byteView(bits);
