// Compares two runs of one graph on the same input: one on the CPU, the other on a provider with less exact arithmetic.
//
// Differences are relative to the largest magnitude of the tensor, like errors of sums; up to 10 % are allowed.
// Measured differences: 3.6 % for an INT8 graph on WebGPU, whose rounding to the other step propagates through layers;
// 1.5 % between the CPU's own optimization levels; 3.6 % between an FP16 MobileNet and its FP32 original. A wrong kernel
// differs by about the magnitude itself. Decisions (argmax of a row of logits) must agree, unless the CPU's own decision
// is within the tolerance. Integers, booleans and strings must be equal.

import type { NamedTensors, Tensor } from "../../core/tensor.ts";

const RELATIVE_TOLERANCE = 0.1;
/** Lower limit of the magnitude, for tensors that are almost zero. */
const MIN_MAGNITUDE = 1e-3;

export interface OutputComparison {
  /** Maximum over all floating-point outputs. */
  readonly maxAbsDifference: number;
  /** First disagreement; undefined if the outputs agree. */
  readonly problem: string | undefined;
}

export function compareOutputs(expected: NamedTensors, actual: NamedTensors): OutputComparison {
  let maxAbsDifference = 0;
  let problem: string | undefined;
  for (const [name, tensor] of Object.entries(expected)) {
    const other = Object.hasOwn(actual, name) ? actual[name] : undefined;
    const compared =
      other === undefined
        ? { maxAbsDifference: 0, problem: "is missing" }
        : compareTensors(tensor, other);
    maxAbsDifference = Math.max(maxAbsDifference, compared.maxAbsDifference);
    problem ??= compared.problem === undefined ? undefined : `output ${name} ${compared.problem}`;
  }
  return { maxAbsDifference, problem };
}

function compareTensors(expected: Tensor, actual: Tensor): OutputComparison {
  const [expectedShape, actualShape] = [expected.shape.join(", "), actual.shape.join(", ")];
  if (expectedShape !== actualShape)
    return {
      maxAbsDifference: 0,
      problem: `has the shape [${actualShape}] instead of [${expectedShape}]`,
    };
  const [expectedValues, actualValues] = [toFloats(expected), toFloats(actual)];
  if (expectedValues === undefined || actualValues === undefined) {
    const isEqual = expected.datatype === actual.datatype && areEqualTensors(expected, actual);
    return { maxAbsDifference: 0, problem: isEqual ? undefined : "is not equal" };
  }
  return compareNumbers(expectedValues, actualValues, expected.shape);
}

function compareNumbers(
  expected: FloatArray,
  actual: FloatArray,
  shape: readonly number[],
): OutputComparison {
  let [scale, largest, largestIndex, nonFiniteCount] = [MIN_MAGNITUDE, 0, 0, 0];
  for (let index = 0; index < expected.length; index++) {
    const [a, b] = [expected[index] ?? 0, actual[index] ?? 0];
    if (Number.isFinite(a) && Number.isFinite(b)) {
      scale = Math.max(scale, Math.abs(a));
      if (Math.abs(a - b) > largest) [largest, largestIndex] = [Math.abs(a - b), index];
    } else if (!Object.is(a, b)) nonFiniteCount++;
  }
  const allowed = RELATIVE_TOLERANCE * scale;
  const problem =
    nonFiniteCount > 0
      ? `differs in ${nonFiniteCount} non-finite values`
      : largest > allowed
        ? `is ${actual[largestIndex]} instead of ${expected[largestIndex]} at index ${largestIndex}; the tolerance is ${allowed}`
        : findArgmaxMismatch(expected, actual, shape, allowed);
  return { maxAbsDifference: largest, problem };
}

/** Compares the argmax of each row of a two-dimensional tensor. */
function findArgmaxMismatch(
  expected: FloatArray,
  actual: FloatArray,
  shape: readonly number[],
  allowed: number,
): string | undefined {
  const [rows = 0, columns = 0, ...otherDimensions] = shape;
  if (otherDimensions.length > 0 || columns < 2) return undefined;
  for (let row = 0; row < rows; row++) {
    const [best, gap] = findArgmax(expected.subarray(row * columns, (row + 1) * columns));
    const [otherBest] = findArgmax(actual.subarray(row * columns, (row + 1) * columns));
    if (best !== otherBest && gap > allowed)
      return `has argmax ${otherBest} instead of ${best} in row ${row}`;
  }
  return undefined;
}

/** Returns the index of the largest value, and its gap to the second largest. */
function findArgmax(values: FloatArray): readonly [index: number, gap: number] {
  let [best, first, second] = [0, Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY];
  values.forEach((value, index) => {
    if (value > first) [best, first, second] = [index, value, first];
    else if (value > second) second = value;
  });
  return [best, first - second];
}

type FloatArray = Float32Array | Float64Array;

function toFloats(tensor: Tensor): FloatArray | undefined {
  if (tensor.datatype === "FP32" || tensor.datatype === "FP64") return tensor.data;
  if (tensor.datatype === "FP16") return Float32Array.from(tensor.data, decodeFloat16);
  if (tensor.datatype === "BF16")
    return new Float32Array(Uint32Array.from(tensor.data, (bits) => bits << 16).buffer);
  return undefined;
}

/** Decodes IEEE 754 binary16: 1 sign bit, 5 exponent bits, 10 fraction bits. */
function decodeFloat16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return (
    sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15))
  );
}

function areEqualTensors(expected: Tensor, actual: Tensor): boolean {
  if (expected.datatype === "BYTES") {
    return expected.data.every(
      (element, index) =>
        actual.datatype === "BYTES" &&
        Buffer.from(element).equals(actual.data[index] ?? new Uint8Array()),
    );
  }
  return (
    actual.datatype !== "BYTES" &&
    expected.data.every((value, index) => value === actual.data[index])
  );
}
