// Tests which outputs agree with the CPU's.
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

describe("outputs agree if they are", () => {
  it.each([
    [
      "numbers that differ little, relative to the largest one",
      fp32([3], 100, 0, -3),
      fp32([3], 109, 9, 6),
    ],
    ["numbers that are almost zero", fp32([2], 0, 1e-9), fp32([2], 9e-5, 0)],
    [
      "non-finite on both sides",
      fp32([3], Number.NaN, Number.POSITIVE_INFINITY, 1),
      fp32([3], Number.NaN, Number.POSITIVE_INFINITY, 1),
    ],
    ["rows with almost equal logits", fp32([1, 3], 5, 4.99, 1), fp32([1, 3], 4.99, 5, 1)],
    ["halves: 1, -2, 2^-24", fp16(0x3c00, 0xc000, 0x0001), fp32([3], 1, -2, 0)],
    [
      "brain floats",
      y({ datatype: "BF16", shape: [1], data: Uint16Array.of(0xbf80) }),
      fp32([1], -1),
    ],
    ["equal strings", bytes("a", ""), bytes("a", "")],
    [
      "equal integers",
      y({ datatype: "INT64", shape: [1], data: BigInt64Array.of(-1n) }),
      y({ datatype: "INT64", shape: [1], data: BigInt64Array.of(-1n) }),
    ],
  ] as const)("%s", (_description, expected, actual) => {
    expect(compareOutputs(expected, actual).problem).toBeUndefined();
  });
});

describe("outputs disagree if they are", () => {
  it.each([
    ["numbers too far apart", fp32([2], 10, 0), fp32([2], 10, 1.5), /1\.5 .*\b0 at index 1\b/],
    [
      "infinite on one side only",
      fp32([1], 1),
      fp32([1], Number.POSITIVE_INFINITY),
      /\b1 non-finite/,
    ],
    ["infinities of different signs", fp16(0x7c00), fp16(0xfc00), /\b1 non-finite/],
    // Both values are within 10 % of 100, but the gap between the CPU's values is larger.
    [
      "different decisions beyond the tolerance",
      fp32([1, 2], 100, 88),
      fp32([1, 2], 92, 93),
      /argmax 1 .*\b0 in row 0/,
    ],
    ["different strings", bytes("a"), bytes("b"), /not equal/],
    [
      "different integers",
      y({ datatype: "INT64", shape: [1], data: BigInt64Array.of(1n) }),
      y({ datatype: "INT64", shape: [1], data: BigInt64Array.of(2n) }),
      /not equal/,
    ],
  ] as const)("%s", (_description, expected, actual, problem) => {
    expect(compareOutputs(expected, actual).problem).toMatch(problem);
  });
});

it("reports the largest difference of all outputs, even if they agree", () => {
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
