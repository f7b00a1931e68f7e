// Numbers in FP16 (IEEE 754 binary16), as 16-bit patterns.

import { byteView } from "../../core/bytes.ts";

export interface Float16Encoding {
  readonly bits: Uint16Array;
  /** Finite numbers that would have become infinite, and are ±65,504 now. */
  readonly clampedCount: number;
  /** Numbers that would have become 0, and are ±2^-24 now: a divisor or the argument of a logarithm must not vanish. */
  readonly raisedCount: number;
}

const INFINITY = 0x7c00;
const MAX_FINITE = 0x7bff;
const SMALLEST_NORMAL = 2 ** -14;

/** To the nearest, ties to even. */
export function encodeFloat16(values: Float32Array): Float16Encoding {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const bits = new Uint16Array(values.length);
  let [clamped, raised] = [0, 0];
  for (let index = 0; index < words.length; index++) {
    const word = words[index] ?? 0;
    const magnitude = word & 0x7fff_ffff;
    let half = nearestFloat16(magnitude, Math.abs(values[index] ?? 0));
    if (half === INFINITY && magnitude < 0x7f80_0000) {
      half = MAX_FINITE;
      clamped++;
    } else if (half === 0 && magnitude !== 0) {
      half = 1;
      raised++;
    }
    bits[index] = ((word >>> 16) & 0x8000) | half;
  }
  return { bits, clampedCount: clamped, raisedCount: raised };
}

/** @param word the bits of `value`, which is not negative */
function nearestFloat16(word: number, value: number): number {
  if (word > 0x7f80_0000) return 0x7e00; // not a number
  if (value >= SMALLEST_NORMAL) {
    const rounded = word + 0xfff + ((word >>> 13) & 1);
    return Math.min((rounded - (112 << 23)) >>> 13, INFINITY); // the exponent's bias is 15 in place of 127
  }
  const steps = value * 2 ** 24; // exact
  const below = Math.floor(steps);
  return steps - below > 0.5 || (steps - below === 0.5 && below % 2 === 1) ? below + 1 : below;
}

export function decodeFloat16(bits: Uint16Array): Float32Array {
  return Float32Array.from(bits, (half) => {
    const [sign, exponent, fraction] = [half & 0x8000 ? -1 : 1, (half >>> 10) & 0x1f, half & 0x3ff];
    if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : Number.NaN;
    return (
      sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15))
    );
  });
}

/** Whether FP16 has the number with all its 11 bits of precision. */
export const isNormalFloat16 = (value: number): boolean =>
  Math.abs(value) >= SMALLEST_NORMAL && Math.abs(value) <= 65_504;

/** As the bytes of a tensor. */
export const float16Bytes = ({ bits }: Float16Encoding): Uint8Array => byteView(bits);
