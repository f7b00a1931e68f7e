// A tensor's elements as the Open Inference Protocol writes them in JSON.
//
// Out: booleans for BOOL; numbers; strings for 64-bit integers past 2^53, for BYTES (UTF-8), and for what JSON has no number
// for: "NaN", "Infinity", "-Infinity". In: the same, and 0 and 1 for BOOL, any 64-bit integer as a string or a number.

import { coreErrors } from "../core/common-errors.ts";
import { protocolErrors } from "./errors.ts";
import { shown } from "../core/errors.ts";
import {
  countElements,
  type Datatype,
  type Tensor,
  type TensorDataByDatatype,
  type TensorOf,
} from "../core/tensor.ts";

declare global {
  interface JSON {
    /** Text that JSON.stringify writes as it is (ECMAScript 2026). */
    rawJSON(text: string): object;
  }
}

/** JSON has no 16-bit floating point: those two travel as binary data only. */
export type JsonDatatype = Exclude<Datatype, "FP16" | "BF16">;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** JSON.stringify writes -0 as 0, and so would drop the sign; as would a reader that takes -0 for an integer. */
const NEGATIVE_ZERO = JSON.rawJSON("-0.0");
const NON_FINITE_NUMBERS: ReadonlyMap<unknown, number> = new Map(
  [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY].map((value) => [
    String(value),
    value,
  ]),
);
const INTEGER_PATTERN = /^-?\d{1,20}$/;

/** Typed arrays, of which only the elements matter here. */
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
 * @param data row-major, flat or nested as `shape` says.
 * @throws invalid_tensor for data that does not fit datatype and shape, invalid_utf8 for a text with a lone surrogate.
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

/** @throws invalid_tensor for FP16, BF16, and BYTES that are not UTF-8. */
export function encodeJsonData(name: string, tensor: Tensor): unknown[] {
  switch (tensor.datatype) {
    case "FP16":
    case "BF16":
      throw coreErrors.invalidTensor(
        name,
        `${tensor.datatype} has no form in JSON; it needs binary data`,
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
  const near = Number(value);
  return Number.isSafeInteger(near) ? near : String(value);
}

/** Nested data must have exactly the form of the shape, which also bounds the recursion. */
function flatten(name: string, shape: readonly number[], data: readonly unknown[]): unknown[] {
  const values: unknown[] = [];
  const visit = (level: readonly unknown[], axis: number): void => {
    if (level.length !== shape[axis])
      throw coreErrors.invalidTensor(
        name,
        `its nested data does not have the shape [${shape.join(", ")}]`,
      );
    const innermost = axis === shape.length - 1;
    for (const element of level) {
      if (Array.isArray(element) === innermost)
        throw coreErrors.invalidTensor(
          name,
          `its nested data does not have the shape [${shape.join(", ")}]`,
        );
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
    typeof value === "object" && value !== null ? "an array or object" : shown(value, 40);
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
    // What does not fit (a fraction, too large) does not come back from a typed array as it went in.
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
    // Infinite without saying so: a number too large for the datatype.
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
      "an element is not UTF-8, so it has no form in JSON; it needs binary data",
    );
  }
}
