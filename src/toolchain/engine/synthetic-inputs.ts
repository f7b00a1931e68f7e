// Synthetic inputs, derived from a graph's declared inputs alone. They warm up sessions, profile engines, and validate
// engines on other inputs than the profiled ones.

import {
  countElements,
  type NamedTensors,
  type NumericDatatype,
  type Tensor,
  type TensorSpec,
  typedArrays,
} from "../../core/tensor.ts";
import { seededRandom } from "../seeded-random.ts";

type ValuePattern = "random" | "zeros" | "huge";

/** Above this row size only few batches are tried, because each run takes long. */
const LARGE_ROW_ELEMENTS = 50_000;
const PROFILING_SIZES = {
  batches: [1, 2, 3, 4, 5, 8, 16, 32],
  fewBatches: [1, 2, 3],
  lengths: [1, 2, 3, 5, 8, 13, 24, 40, 64],
};
const VALIDATION_SIZES = {
  batches: [1, 2, 6, 7, 12, 24],
  fewBatches: [1, 2, 4],
  lengths: [1, 4, 6, 9, 17, 31, 50, 80],
};

/** Creates inputs of the shapes that a session should be ready for: a short one, a long one, and a batch. */
export function createWarmUpInputs(specs: readonly TensorSpec[]): NamedTensors[] {
  return [
    createInput(specs, 1, 8, "random", 1),
    createInput(specs, 1, 64, "random", 2),
    ...(hasDynamicBatch(specs) ? [createInput(specs, 2, 16, "random", 3)] : []),
  ];
}

/**
 * Creates inputs of all kinds of sizes, including empty ones, with all kinds of values. Huge values enter the error paths,
 * for example as indices out of range.
 */
export const createProfilingInputs = (specs: readonly TensorSpec[]): NamedTensors[] =>
  createInputs(specs, PROFILING_SIZES, 1_000);
/** Creates inputs of other sizes and values than `createProfilingInputs`. */
export const createValidationInputs = (specs: readonly TensorSpec[]): NamedTensors[] =>
  createInputs(specs, VALIDATION_SIZES, 2_000);

function createInputs(
  specs: readonly TensorSpec[],
  sizes: typeof PROFILING_SIZES,
  firstSeed: number,
): NamedTensors[] {
  const isLargeRow = specs.some(
    (spec) => countElements(spec.name, resolveShape(spec.shape, 1, 1)) > LARGE_ROW_ELEMENTS,
  );
  const batches = !hasDynamicBatch(specs) ? [1] : isLargeRow ? sizes.fewBatches : sizes.batches;
  const lengths = hasDynamicLength(specs) ? sizes.lengths : [1];
  const pairs = batches.flatMap((batch) => lengths.map((length) => [batch, length] as const));
  const longest = lengths.at(-1) ?? 1;
  return [
    ...pairs.map(([batch, length], index) =>
      createInput(specs, batch, length, "random", firstSeed + index),
    ),
    createInput(specs, 1, longest, "zeros", firstSeed),
    ...[1, 2, 3].map((batch) =>
      createInput(specs, hasDynamicBatch(specs) ? batch : 1, longest, "huge", firstSeed),
    ),
    ...(hasDynamicBatch(specs) ? [createInput(specs, 0, 1, "zeros", firstSeed)] : []),
    ...(hasDynamicLength(specs) ? [createInput(specs, 1, 0, "zeros", firstSeed)] : []),
    // A normal input comes last, because the session must still work after the errors.
    createInput(specs, 1, 1, "random", firstSeed + 500),
  ];
}

const hasDynamicBatch = (specs: readonly TensorSpec[]): boolean =>
  specs.some(({ shape }) => shape[0] === -1);

const hasDynamicLength = (specs: readonly TensorSpec[]): boolean =>
  specs.some(({ shape }) => shape.slice(1).includes(-1));

/** The first dimension is the batch; other symbolic ones are lengths. */
const resolveShape = (shape: readonly number[], batch: number, length: number): number[] =>
  shape.map((dimension, axis) => (dimension !== -1 ? dimension : axis === 0 ? batch : length));

function createInput(
  specs: readonly TensorSpec[],
  batch: number,
  length: number,
  values: ValuePattern,
  seed: number,
): NamedTensors {
  return Object.fromEntries(
    specs.map(({ name, datatype, shape: declared }, position) => {
      const shape = resolveShape(declared, batch, length);
      const random = seededRandom(seed * 31 + position);
      const count = countElements(name, shape);
      const data = createValues(datatype as NumericDatatype, count, values, random);
      return [name, { datatype, shape, data } as Tensor];
    }),
  );
}

function createValues(
  datatype: NumericDatatype,
  count: number,
  values: ValuePattern,
  random: () => number,
): Tensor["data"] {
  const data = new typedArrays[datatype](count);
  if (values === "zeros") return data;
  const isBigInt = data instanceof BigInt64Array || data instanceof BigUint64Array;
  const isFloat = data instanceof Float32Array || data instanceof Float64Array;
  const huge = isFloat ? 1e30 : 2 ** (8 * data.BYTES_PER_ELEMENT - 2);
  for (let index = 0; index < count; index++) {
    const value = values === "huge" ? huge : drawValue(datatype, isFloat, random);
    if (isBigInt) data[index] = BigInt(value);
    else data[index] = value;
  }
  return data;
}

function drawValue(datatype: NumericDatatype, isFloat: boolean, random: () => number): number {
  if (isFloat) return 2 * random() - 1;
  if (datatype === "UINT8" || datatype === "INT8") return Math.floor(random() * 128);
  // Other integers are often indices, and every vocabulary has the indices 0 and 1.
  return random() < 0.5 ? 0 : 1;
}
