// Encodes and decodes tensor elements in the JSON form of the Open Inference Protocol.
//
// Output: booleans for BOOL; numbers; strings for 64-bit integers beyond 2^53, for BYTES (UTF-8), and for "NaN",
// "Infinity" and "-Infinity". Input: the same, plus 0 and 1 for BOOL, and any 64-bit integer as a string or a number.

import { coreErrors } from "../core/common-errors.ts";
import { formatValue } from "../core/errors.ts";
import {
  countElements,
  type Datatype,
  type Tensor,
  type TensorDataByDatatype,
  type TensorOf,
} from "../core/tensor.ts";
import { protocolErrors } from "./errors.ts";

declare global {
  interface JSON {
    /** Creates a value that JSON.stringify writes verbatim (ECMAScript 2026). */
    rawJSON(text: string): object;
  }
}

/** Datatypes with a JSON form. The 16-bit floating-point types travel as binary data only. */
export type JsonDatatype = Exclude<Datatype, "FP16" | "BF16">;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Keeps the sign of -0, which JSON.stringify would drop, as would a reader that parses -0 as an integer. */
const NEGATIVE_ZERO = JSON.rawJSON("-0.0");
const NON_FINITE_NUMBERS: ReadonlyMap<unknown, number> = new Map(
  [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY].map((value) => [
    String(value),
    value,
  ]),
);
const INTEGER_PATTERN = /^-?\d{1,20}$/;

/** A typed array, reduced to its elements. */
type Numbers = Record<number, number>;
type BigIntegers = Record<number, bigint>;

type ElementDecoder<D extends Datatype> = (
  name: string,
  values: readonly unknown[],
) => TensorDataByDatatype[D];

const decoders: { readonly [D in JsonDatatype]: ElementDecoder<D> } = {
  BOOL: decodeBooleans,
  UINT8: (name, values) => decodeIntegers(name, "UINT8", values, new Uint8Array(values.length)),
  UINT16: (name, values) => decodeIntegers(name, "UINT16", values, new Uint16Array(values.length)),
  UINT32: (name, values) => decodeIntegers(name, "UINT32", values, new Uint32Array(values.length)),
  UINT64: (name, values) =>
    decodeBigIntegers(name, "UINT64", values, new BigUint64Array(values.length)),
  INT8: (name, values) => decodeIntegers(name, "INT8", values, new Int8Array(values.length)),
  INT16: (name, values) => decodeIntegers(name, "INT16", values, new Int16Array(values.length)),
  INT32: (name, values) => decodeIntegers(name, "INT32", values, new Int32Array(values.length)),
  INT64: (name, values) =>
    decodeBigIntegers(name, "INT64", values, new BigInt64Array(values.length)),
  FP32: (name, values) => decodeFloats(name, "FP32", values, new Float32Array(values.length)),
  FP64: (name, values) => decodeFloats(name, "FP64", values, new Float64Array(values.length)),
  BYTES: (name, values) => values.map((value, index) => encodeText(name, value, index)),
};

/**
 * @param data row-major, flat or nested according to `shape`
 * @throws invalid_tensor if the data does not match datatype and shape; invalid_utf8 for a string with a lone surrogate
 */
export function decodeJsonTensor<D extends JsonDatatype>(
  name: string,
  datatype: D,
  shape: readonly number[],
  data: unknown,
): TensorOf<D> {
  const count = countElements(name, shape);
  if (!Array.isArray(data)) throw coreErrors.invalidTensor(name, "its data is not an array");
  const values = Array.isArray(data[0]) ? flatten(name, shape, data) : data;
  if (values.length !== count) throw protocolErrors.wrongElementCount(name, values.length, shape);
  return { datatype, shape, data: decoders[datatype](name, values) };
}

/** @throws invalid_tensor for FP16, BF16, and BYTES that are not UTF-8 */
export function encodeJsonData(name: string, tensor: Tensor): unknown[] {
  switch (tensor.datatype) {
    case "FP16":
    case "BF16":
      throw coreErrors.invalidTensor(
        name,
        `${tensor.datatype} has no JSON form; it requires binary data`,
      );
    case "FP32":
    case "FP64":
      return Array.from(tensor.data, encodeFloat);
    case "INT64":
    case "UINT64":
      return Array.from(tensor.data, encodeBigInteger);
    case "BOOL":
      return Array.from(tensor.data, (value) => value !== 0);
    case "BYTES":
      return tensor.data.map((element) => decodeText(name, element));
    default:
      return Array.from(tensor.data);
  }
}

function encodeFloat(value: number): unknown {
  if (value === 0) return Object.is(value, -0) ? NEGATIVE_ZERO : 0;
  return Number.isFinite(value) ? value : String(value);
}

function encodeBigInteger(value: bigint): number | string {
  const rounded = Number(value);
  return Number.isSafeInteger(rounded) ? rounded : String(value);
}

/** Flattens nested data, which must match the shape exactly. The shape also bounds the recursion. */
function flatten(name: string, shape: readonly number[], data: readonly unknown[]): unknown[] {
  const values: unknown[] = [];
  const createShapeError = () =>
    coreErrors.invalidTensor(name, `its nested data does not have the shape [${shape.join(", ")}]`);
  const visit = (level: readonly unknown[], axis: number): void => {
    if (level.length !== shape[axis]) throw createShapeError();
    const isInnermost = axis === shape.length - 1;
    for (const element of level) {
      if (Array.isArray(element) === isInnermost) throw createShapeError();
      if (Array.isArray(element)) visit(element, axis + 1);
      else values.push(element);
    }
  };
  visit(data, 0);
  return values;
}

function createElementError(
  name: string,
  datatype: Datatype,
  value: unknown,
  index: number,
): Error {
  const found =
    typeof value === "object" && value !== null ? "an array or object" : formatValue(value, 40);
  return coreErrors.invalidTensor(name, `element ${index} is ${found}, which is not ${datatype}`);
}

function decodeBooleans(name: string, values: readonly unknown[]): Uint8Array {
  const data = new Uint8Array(values.length);
  values.forEach((value, index) => {
    if (value !== true && value !== false && value !== 0 && value !== 1)
      throw createElementError(name, "BOOL", value, index);
    data[index] = Number(value);
  });
  return data;
}

function decodeIntegers<Data extends Numbers>(
  name: string,
  datatype: Datatype,
  values: readonly unknown[],
  data: Data,
): Data {
  const elements: Numbers = data;
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    if (typeof value !== "number") throw createElementError(name, datatype, value, index);
    elements[index] = value;
    // A typed array changes a value that does not fit: a fraction, or a number out of range.
    if (elements[index] !== value) throw createElementError(name, datatype, value, index);
  }
  return data;
}

function decodeBigIntegers<Data extends BigIntegers>(
  name: string,
  datatype: Datatype,
  values: readonly unknown[],
  data: Data,
): Data {
  const elements: BigIntegers = data;
  for (let index = 0; index < values.length; index++) {
    const value = parseBigInteger(values[index]);
    if (value === undefined) throw createElementError(name, datatype, values[index], index);
    elements[index] = value;
    if (elements[index] !== value) throw createElementError(name, datatype, value, index);
  }
  return data;
}

function parseBigInteger(value: unknown): bigint | undefined {
  if (typeof value === "number") return Number.isSafeInteger(value) ? BigInt(value) : undefined;
  if (typeof value === "bigint") return value;
  return typeof value === "string" && INTEGER_PATTERN.test(value) ? BigInt(value) : undefined;
}

function decodeFloats<Data extends Numbers>(
  name: string,
  datatype: Datatype,
  values: readonly unknown[],
  data: Data,
): Data {
  const elements: Numbers = data;
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    const number =
      typeof value === "number"
        ? value
        : typeof value === "bigint"
          ? Number(value)
          : NON_FINITE_NUMBERS.get(value);
    if (number === undefined) throw createElementError(name, datatype, value, index);
    elements[index] = number;
    // A number that is too large for the datatype becomes infinite.
    if (!Number.isFinite(elements[index]) && typeof value !== "string")
      throw createElementError(name, datatype, value, index);
  }
  return data;
}

function encodeText(name: string, value: unknown, index: number): Uint8Array {
  if (typeof value !== "string") throw createElementError(name, "BYTES", value, index);
  if (!value.isWellFormed()) throw coreErrors.invalidUtf8(`Tensor ${name}, element ${index}`);
  return encoder.encode(value);
}

function decodeText(name: string, element: Uint8Array): string {
  try {
    return decoder.decode(element);
  } catch {
    throw coreErrors.invalidTensor(
      name,
      "an element is not UTF-8 and has no JSON form; it requires binary data",
    );
  }
}
