// Numbers to FP16 and back, against what the format says.
import { expect, it } from "vitest";
import {
  decodeFloat16,
  isNormalFloat16,
  encodeFloat16,
} from "../../../src/toolchain/fp16/float16.ts";

const roundTrip = (value: number) => decodeFloat16(encodeFloat16(Float32Array.of(value)).bits)[0];

it("has every FP16 number as itself", () => {
  const all = Uint16Array.from({ length: 0x10000 }, (_, bits) => bits).filter(
    (bits) => (bits & 0x7fff) <= 0x7c00,
  ); // without NaNs
  const { bits, clampedCount: clamped, raisedCount: raised } = encodeFloat16(decodeFloat16(all));
  expect({ clamped, raised }).toEqual({ clamped: 0, raised: 0 });
  expect(Buffer.from(bits.buffer).equals(Buffer.from(all.buffer))).toBe(true);
});

it("rounds to the nearest, and halfway to the even one", () => {
  const positive = decodeFloat16(Uint16Array.from({ length: 0x7c00 }, (_, bits) => bits));
  const wrong = [...positive].flatMap((low, index) => {
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
    const right = index === 0 ? [high, high, high, -high] : [even, low, high, -even]; // nothing becomes 0
    return found.every((value, at) => value === right[at]) ? [] : [{ low, found, right }];
  });
  expect(wrong).toEqual([]);
});

it("clamps what is finite, keeps small numbers from 0, and counts both", () => {
  const {
    bits,
    clampedCount: clamped,
    raisedCount: raised,
  } = encodeFloat16(
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
  expect({ clamped, raised }).toEqual({ clamped: 2, raised: 2 });
});

it("tells the numbers that have all their bits", () => {
  expect([2 ** -14, -1, 65_504].map(isNormalFloat16)).toEqual([true, true, true]);
  expect([2 ** -15, 0, 65_536, Number.NaN].map(isNormalFloat16)).toEqual([
    false,
    false,
    false,
    false,
  ]);
});
