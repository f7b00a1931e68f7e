// Reads samples for a graph with one input from a NumPy array. Rows are read as they are needed,
// again for each iteration. The format:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

import { type FileHandle, open } from "node:fs/promises";
import { type EdgeTierError, reasonOf } from "../../core/errors.ts";
import {
  countElements,
  type NamedTensors,
  type NumericDatatype,
  type Tensor,
  type TensorSpec,
  typedArrays,
} from "../../core/tensor.ts";
import { importErrors } from "../import/errors.ts";

/**
 * @param path path of an array whose first dimension counts the samples
 * @param specs the graph's inputs; rows are checked against them when they run
 * @throws invalid_tensor_samples during iteration
 */
export function readNpySamples(
  path: string,
  specs: readonly TensorSpec[],
  limit = Number.POSITIVE_INFINITY,
): AsyncIterable<NamedTensors> {
  const createError = (problem: string) => importErrors.invalidTensorSamples(path, problem);
  return {
    async *[Symbol.asyncIterator]() {
      const handle = await open(path).catch((error: unknown) => {
        throw createError(reasonOf(error));
      });
      try {
        yield* readRows({ handle, createError }, specs, limit);
      } finally {
        await handle.close();
      }
    },
  };
}

interface NpyFile {
  readonly handle: FileHandle;
  /** Creates the error for invalid file content. */
  readonly createError: (problem: string) => EdgeTierError;
}

function toTypedTensor(
  datatype: NumericDatatype,
  shape: readonly number[],
  numbers: ArrayLike<number | bigint>,
): Tensor {
  const data = new typedArrays[datatype](numbers.length);
  for (let index = 0; index < numbers.length; index++) {
    const number = numbers[index] ?? 0;
    if (data instanceof BigInt64Array || data instanceof BigUint64Array)
      data[index] = BigInt(number);
    else data[index] = Number(number);
  }
  return { datatype, shape, data } as Tensor;
}

/** NumPy's element types, by their descriptors. */
const NPY_ELEMENT_TYPES = {
  "<f4": Float32Array,
  "<f8": Float64Array,
  "|u1": Uint8Array,
  "|i1": Int8Array,
  "<i4": Int32Array,
  "<i8": BigInt64Array,
} as const;
const isNpyElementType = (description: string): description is keyof typeof NPY_ELEMENT_TYPES =>
  Object.hasOwn(NPY_ELEMENT_TYPES, description);

async function* readRows(
  file: NpyFile,
  specs: readonly TensorSpec[],
  limit: number,
): AsyncGenerator<NamedTensors> {
  const [spec, ...others] = specs;
  if (spec === undefined || others.length > 0 || spec.datatype === "BYTES")
    throw file.createError(
      `the graph has ${specs.length} inputs (${specs.map(({ name }) => name).join(", ")}); an array requires a single numeric input`,
    );
  const {
    elementType,
    shape: [rows = 0, ...shape],
    start,
  } = await readHeader(file);
  if (rows === 0) throw file.createError("it has no rows");
  const row = [1, ...shape];
  const bytes = countElements(spec.name, row) * NPY_ELEMENT_TYPES[elementType].BYTES_PER_ELEMENT;
  for (let index = 0; index < Math.min(rows, limit); index++) {
    const buffer = await readExactly(file, bytes, start + index * bytes);
    yield {
      [spec.name]: toTypedTensor(spec.datatype, row, new NPY_ELEMENT_TYPES[elementType](buffer)),
    };
  }
}

async function readHeader(file: NpyFile): Promise<{
  readonly elementType: keyof typeof NPY_ELEMENT_TYPES;
  readonly shape: readonly number[];
  readonly start: number;
}> {
  const prefix = new DataView(await readExactly(file, 12, 0));
  if (prefix.getUint32(0) !== 0x934e554d) throw file.createError("it is not a NumPy array");
  const version = prefix.getUint8(6);
  const [length, start] =
    version === 1 ? [prefix.getUint16(8, true), 10] : [prefix.getUint32(8, true), 12];
  if (length > 10_000) throw file.createError(`its header has ${length} bytes; the limit is 10000`);
  const header = new TextDecoder().decode(await readExactly(file, length, start));
  const description = /'descr': *'([^']+)'/.exec(header)?.[1] ?? "";
  const shape = /'shape': *\(([^)]*)\)/
    .exec(header)?.[1]
    ?.split(",")
    .filter((size) => size.trim() !== "")
    .map(Number);
  if (!isNpyElementType(description))
    throw file.createError(
      `its elements are ${JSON.stringify(description)}; supported types are ${Object.keys(NPY_ELEMENT_TYPES).join(", ")}`,
    );
  if (shape === undefined || shape.length === 0 || header.includes("'fortran_order': True"))
    throw file.createError("it has no rows, or is stored in Fortran order");
  return { elementType: description, shape, start: start + length };
}

async function readExactly(file: NpyFile, bytes: number, position: number): Promise<ArrayBuffer> {
  const buffer = new ArrayBuffer(bytes);
  const { bytesRead } = await file.handle.read(new Uint8Array(buffer), 0, bytes, position);
  if (bytesRead < bytes) throw file.createError("it is truncated");
  return buffer;
}
