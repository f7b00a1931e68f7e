// Inputs for warm-up runs, which allocate and plan before a client's first run.

import { createHash } from "node:crypto";
import {
  type Datatype,
  countElements,
  type NamedTensors,
  type NumericDatatype,
  type Tensor,
  type TensorOf,
  type TensorSpec,
  typedArrays,
} from "../../core/tensor.ts";
import { decodeBinaryTensor } from "../../protocol/binary-tensors.ts";
import type { WarmupSample } from "../../registry/serving-config.ts";

type WarmupInput<File> = NonNullable<WarmupSample<File>["inputs"]>[string];

/** Generates inputs from the graph's declaration: `rows` for the first dimension, 1 for every other variable one. */
export function generateInputs(
  specs: readonly TensorSpec[],
  rows: number,
  values: "zero" | "random",
): NamedTensors {
  return Object.fromEntries(
    specs.map(({ name, datatype, shape: declared }) => {
      const shape = declared.map((dimension, axis) =>
        dimension !== -1 ? dimension : axis === 0 ? rows : 1,
      );
      const count = countElements(name, shape);
      return [
        name,
        values === "zero"
          ? zeroTensor(datatype, shape, count)
          : randomTensor(name, datatype, shape, count),
      ];
    }),
  );
}

/**
 * Creates one input from its description in the warm-up list.
 * @param spec of the graph; absent if the graph has no such input, which the run reports
 * @param file bytes of one row, if the input has a file
 * @throws invalid_tensor for a shape that is too large, or a file that does not fill it
 */
export function createWarmupTensor<File>(
  name: string,
  input: WarmupInput<File>,
  spec: TensorSpec | undefined,
  rows: number,
  file?: Uint8Array,
): Tensor {
  const { datatype, shape: row, data } = input;
  // The shape is used unchanged if the graph has no batch dimension.
  const shape = spec?.shape.length === row.length ? row : [rows, ...row];
  const count = countElements(name, shape);
  if (data === "zero") return zeroTensor(datatype, shape, count);
  if (data === "random") return randomTensor(name, datatype, shape, count);
  return tileRow(decodeBinaryTensor(name, datatype, row, file ?? new Uint8Array()), shape, count);
}

function zeroTensor(datatype: Datatype, shape: readonly number[], count: number): Tensor {
  if (datatype === "BYTES")
    return { datatype, shape, data: Array.from({ length: count }, () => new Uint8Array()) };
  return numericTensor(datatype, shape, new typedArrays[datatype](count).buffer);
}

/**
 * Generates the same values for the same name: floats in [0, 1), any byte, and 0 or 1 for wider integers, which every
 * vocabulary contains.
 */
function randomTensor(
  name: string,
  datatype: Datatype,
  shape: readonly number[],
  count: number,
): Tensor {
  const randomBytes = createHash("shake256", { outputLength: Math.max(4, count * 4) })
    .update(name)
    .digest();
  const bitsAt = (index: number) => randomBytes.readUInt32LE(index * 4);
  if (datatype === "BYTES")
    return {
      datatype,
      shape,
      data: Array.from({ length: count }, (_, index) =>
        new TextEncoder().encode(bitsAt(index).toString(16)),
      ),
    };
  const data = new typedArrays[datatype](count);
  for (let index = 0; index < count; index++) {
    const bits = bitsAt(index);
    if (data instanceof BigInt64Array || data instanceof BigUint64Array)
      data[index] = BigInt(bits & 1);
    else data[index] = SAMPLE_FROM_BITS[datatype]?.(bits) ?? bits & 1;
  }
  return numericTensor(datatype, shape, data.buffer);
}

/** Converts 32 random bits. For 16-bit floats, the bit patterns below that of 1 are exactly the values in [0, 1). */
const SAMPLE_FROM_BITS: { readonly [D in NumericDatatype]?: (bits: number) => number } = {
  UINT8: (bits) => bits & 0xff,
  INT8: (bits) => (bits & 0xff) - 128,
  FP16: (bits) => bits % 0x3c00,
  BF16: (bits) => bits % 0x3f80,
  FP32: (bits) => bits / 2 ** 32,
  FP64: (bits) => bits / 2 ** 32,
};

/** Repeats one row's elements until the batch is full. */
function tileRow(row: Tensor, shape: readonly number[], count: number): Tensor {
  if (row.datatype === "BYTES")
    return {
      datatype: "BYTES",
      shape,
      data: Array.from(
        { length: count },
        (_, index) => row.data[index % row.data.length] ?? new Uint8Array(),
      ),
    };
  const bytes = new Uint8Array(count * row.data.BYTES_PER_ELEMENT);
  const rowBytes = new Uint8Array(row.data.buffer, row.data.byteOffset, row.data.byteLength);
  for (let offset = 0; offset < bytes.byteLength; offset += rowBytes.byteLength)
    bytes.set(rowBytes, offset);
  return numericTensor(row.datatype, shape, bytes.buffer);
}

function numericTensor(
  datatype: NumericDatatype,
  shape: readonly number[],
  buffer: ArrayBuffer,
): TensorOf<NumericDatatype> {
  return { datatype, shape, data: new typedArrays[datatype](buffer) } as TensorOf<NumericDatatype>;
}
