// What counts as agreeing with the CPU, and what does not.
import { describe, expect, it } from "vitest";
import type { NamedTensors, Tensor } from "../../src/core/tensor.ts";
import { compareOutputs } from "../../src/runtime/native/compare-outputs.ts";

const y = (tensor: Tensor): NamedTensors => ({ y: tensor });
const fp32 = (shape: number[], ...values: number[]): NamedTensors =>
  y({ datatype: "FP32", shape, data: Float32Array.from(values) });
const fp16 = (...bits: number[]): NamedTensors =>
  y({ datatype: "FP16", shape: [bits.length], data: Uint16Array.from(bits) });
const bytes = (...texts: string[]): NamedTensors =>
  y({
    datatype: "BYTES",
    shape: [texts.length],
    data: texts.map((text) => new TextEncoder().encode(text)),
  });

describe("agree", () => {
  it.each([
    [
      "numbers that differ little, measured against the largest",
      fp32([3], 100, 0, -3),
      fp32([3], 109, 9, 6),
    ],
    ["numbers that are all but zero", fp32([2], 0, 1e-9), fp32([2], 9e-5, 0)],
    [
      "what is not a number, or infinite, on both",
      fp32([3], Number.NaN, Number.POSITIVE_INFINITY, 1),
      fp32([3], Number.NaN, Number.POSITIVE_INFINITY, 1),
    ],
    ["rows that a coin could decide", fp32([1, 3], 5, 4.99, 1), fp32([1, 3], 4.99, 5, 1)],
    ["halves: 1, -2, 2^-24", fp16(0x3c00, 0xc000, 0x0001), fp32([3], 1, -2, 0)],
    [
      "brain floats",
      y({ datatype: "BF16", shape: [1], data: Uint16Array.of(0xbf80) }),
      fp32([1], -1),
    ],
    ["equal texts", bytes("a", ""), bytes("a", "")],
    [
      "equal whole numbers",
      y({ datatype: "INT64", shape: [1], data: BigInt64Array.of(-1n) }),
      y({ datatype: "INT64", shape: [1], data: BigInt64Array.of(-1n) }),
    ],
  ] as const)("%s", (_what, expected, actual) => {
    expect(compareOutputs(expected, actual).problem).toBeUndefined();
  });
});

describe("disagree", () => {
  it.each([
    ["numbers too far apart", fp32([2], 10, 0), fp32([2], 10, 1.5), /1\.5 instead of 0 at 1/],
    [
      "what is infinite on one",
      fp32([1], 1),
      fp32([1], Number.POSITIVE_INFINITY),
      /not a number in 1 places/,
    ],
    ["infinities of different signs", fp16(0x7c00), fp16(0xfc00), /not a number in 1 places/],
    // Both are within 10 % of 100; what lies between the CPU's two is more than that.
    [
      "a decision that the CPU is sure of",
      fp32([1, 2], 100, 88),
      fp32([1, 2], 92, 93),
      /decides for 1 instead of 0 in row 0/,
    ],
    ["other texts", bytes("a"), bytes("b"), /not equal/],
    [
      "other whole numbers",
      y({ datatype: "INT64", shape: [1], data: BigInt64Array.of(1n) }),
      y({ datatype: "INT64", shape: [1], data: BigInt64Array.of(2n) }),
      /not equal/,
    ],
  ] as const)("%s", (_what, expected, actual, problem) => {
    expect(compareOutputs(expected, actual).problem).toMatch(problem);
  });
});

it("tells the largest difference of all outputs, also where it is small enough", () => {
  const expected: NamedTensors = {
    a: { datatype: "FP32", shape: [1], data: Float32Array.of(1) },
    b: { datatype: "FP64", shape: [1], data: Float64Array.of(100) },
  };
  const actual: NamedTensors = {
    a: { datatype: "FP32", shape: [1], data: Float32Array.of(1) },
    b: { datatype: "FP64", shape: [1], data: Float64Array.of(100.5) },
  };
  expect(compareOutputs(expected, actual)).toEqual({ maxAbsDifference: 0.5, problem: undefined });
});
