// Tests the encoding and decoding of FP16 against the format's definition.
import { expect, it } from "vitest";
import {
  decodeFloat16,
  isNormalFloat16,
  encodeFloat16,
} from "../../../src/toolchain/fp16/float16.ts";

const roundTrip = (value: number) => decodeFloat16(encodeFloat16(Float32Array.of(value)).bits)[0];

it("encodes every FP16 number as itself", () => {
  // Magnitudes above 0x7c00 are NaNs.
  const all = Uint16Array.from({ length: 0x10000 }, (_, bits) => bits).filter(
    (bits) => (bits & 0x7fff) <= 0x7c00,
  );
  const { bits, clampedCount, raisedCount } = encodeFloat16(decodeFloat16(all));
  expect({ clampedCount, raisedCount }).toEqual({ clampedCount: 0, raisedCount: 0 });
  expect(Buffer.from(bits.buffer).equals(Buffer.from(all.buffer))).toBe(true);
});

it("rounds to the nearest number, and halfway cases to the even one", () => {
  const positive = decodeFloat16(Uint16Array.from({ length: 0x7c00 }, (_, bits) => bits));
  const mismatches = [...positive].flatMap((low, index) => {
    const high = positive[index + 1];
    if (high === undefined) return [];
    const middle = (low + high) / 2;
    const even = index % 2 === 0 ? low : high;
    const found = [
      roundTrip(middle),
      roundTrip(low + (high - low) * 0.49),
      roundTrip(low + (high - low) * 0.51),
      roundTrip(-middle),
    ];
    // No number except 0 is rounded to 0.
    const expected = index === 0 ? [high, high, high, -high] : [even, low, high, -even];
    return found.every((value, position) => value === expected[position])
      ? []
      : [{ low, found, expected }];
  });
  expect(mismatches).toEqual([]);
});

it("clamps finite overflows, raises underflows, and counts both", () => {
  const { bits, clampedCount, raisedCount } = encodeFloat16(
    Float32Array.of(3.4e38, -65_520, 65_519, 1e-12, -1e-45, 0, -0, Infinity, -Infinity, Number.NaN),
  );
  expect([...decodeFloat16(bits)]).toEqual([
    65_504,
    -65_504,
    65_504,
    2 ** -24,
    -(2 ** -24),
    0,
    -0,
    Infinity,
    -Infinity,
    Number.NaN,
  ]);
  expect({ clampedCount, raisedCount }).toEqual({ clampedCount: 2, raisedCount: 2 });
});

it("recognizes numbers with full precision", () => {
  const values = [2 ** -14, -1, 65_504, 2 ** -15, 0, 65_536, Number.NaN];
  expect(values.filter(isNormalFloat16)).toEqual([2 ** -14, -1, 65_504]);
});
