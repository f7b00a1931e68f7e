// Reads and writes the data of a TensorProto: little-endian bytes in `raw_data`, or one typed list
// per number type.

import { create } from "@bufbuild/protobuf";
import { byteView } from "../../core/bytes.ts";
import {
  type TensorProto,
  TensorProto_DataType as DataType,
  TensorProtoSchema,
} from "./proto/onnx_pb.js";

/** An element type in the notation of the ONNX specification: `float`, `float16`, `int64`. */
export type ElementType = string;

const dataTypesByName = new Map(
  Object.entries(DataType).flatMap(([name, code]) =>
    typeof code === "number" ? [[name.toLowerCase(), code] as const] : [],
  ),
);
const namesByDataType = new Map([...dataTypesByName].map(([name, code]) => [code, name]));

export const elementTypeOf = (code: number): ElementType | undefined =>
  code === DataType.UNDEFINED ? undefined : namesByDataType.get(code);
export const toDataType = (type: ElementType): DataType =>
  dataTypesByName.get(type) ?? DataType.UNDEFINED;

const BITS_PER_ELEMENT: ReadonlyMap<number, number> = new Map([
  ...[DataType.UINT2, DataType.INT2].map((type) => [type, 2] as const),
  ...[DataType.UINT4, DataType.INT4, DataType.FLOAT4E2M1].map((type) => [type, 4] as const),
  ...[
    DataType.UINT8,
    DataType.INT8,
    DataType.BOOL,
    DataType.FLOAT8E4M3FN,
    DataType.FLOAT8E4M3FNUZ,
    DataType.FLOAT8E5M2,
    DataType.FLOAT8E5M2FNUZ,
    DataType.FLOAT8E8M0,
  ].map((type) => [type, 8] as const),
  ...[DataType.UINT16, DataType.INT16, DataType.FLOAT16, DataType.BFLOAT16].map(
    (type) => [type, 16] as const,
  ),
  ...[DataType.UINT32, DataType.INT32, DataType.FLOAT].map((type) => [type, 32] as const),
  ...[DataType.UINT64, DataType.INT64, DataType.DOUBLE, DataType.COMPLEX64].map(
    (type) => [type, 64] as const,
  ),
  [DataType.COMPLEX128, 128],
]);

/** Counts the elements of a shape. A scalar has one. */
const countElements = ({ dims }: TensorProto): bigint =>
  dims.reduce((product, size) => product * size, 1n);

/** Returns undefined for strings, and for types that newer versions of ONNX introduced. */
export function byteSizeOf(tensor: TensorProto): bigint | undefined {
  const bits = BITS_PER_ELEMENT.get(tensor.dataType);
  return bits === undefined ? undefined : (countElements(tensor) * BigInt(bits) + 7n) / 8n;
}

/**
 * Describes a defect of a tensor's data, as the rest of a sentence that begins with the tensor's
 * name.
 */
export function findDataProblem(tensor: TensorProto): string | undefined {
  const { dims, dataType, rawData, floatData, int32Data, int64Data, doubleData, uint64Data } =
    tensor;
  if (dims.some((size) => size < 0n)) return `has a negative dimension: [${dims.join(", ")}]`;
  const bytes = byteSizeOf(tensor);
  if (bytes === undefined) return undefined;
  const listed = [floatData, int32Data, int64Data, doubleData, uint64Data].reduce(
    (total, list) => total + list.length,
    0,
  );
  if (rawData.length === 0 && listed > 0)
    return dataType === DataType.FLOAT && BigInt(floatData.length) !== countElements(tensor)
      ? describeMismatch(tensor, `${floatData.length} numbers`)
      : undefined;
  return BigInt(rawData.length) === bytes
    ? undefined
    : describeMismatch(tensor, `${rawData.length} bytes`);
}

const describeMismatch = ({ dims, dataType }: TensorProto, found: string): string =>
  `is ${elementTypeOf(dataType)} [${dims.join(", ")}] but holds ${found}`;

/** Copies the elements of a `float` tensor. */
export function readFloats({ rawData, floatData }: TensorProto): Float32Array {
  if (rawData.length === 0) return new Float32Array(floatData);
  // Raw data is little-endian, as are all platforms that Node supports.
  return new Float32Array(new Uint8Array(rawData).buffer);
}

const integerReaders: ReadonlyMap<number, (bytes: ArrayBuffer) => Float64Array> = new Map([
  [DataType.UINT8, (bytes) => new Float64Array(new Uint8Array(bytes))],
  [DataType.INT8, (bytes) => new Float64Array(new Int8Array(bytes))],
  [DataType.UINT16, (bytes) => new Float64Array(new Uint16Array(bytes))],
  [DataType.INT16, (bytes) => new Float64Array(new Int16Array(bytes))],
  [DataType.INT32, (bytes) => new Float64Array(new Int32Array(bytes))],
]);

/** Copies the elements of an integer tensor of 8 to 32 bits. Returns undefined for other types. */
export function readIntegers({
  dataType,
  rawData,
  int32Data,
}: TensorProto): Float64Array | undefined {
  const read = integerReaders.get(dataType);
  return (
    read &&
    (rawData.length > 0 ? read(new Uint8Array(rawData).buffer) : new Float64Array(int32Data))
  );
}

/** @param data is referenced by the tensor, not copied */
export function makeTensor(
  name: string,
  type: ElementType,
  dims: readonly bigint[],
  data: ArrayBufferView,
): TensorProto {
  return create(TensorProtoSchema, {
    name,
    dataType: toDataType(type),
    dims: [...dims],
    rawData: byteView(data),
  });
}

/** Creates a tensor with the same data and another name. */
export function withTensorName(
  {
    dims,
    dataType,
    rawData,
    floatData,
    int32Data,
    int64Data,
    doubleData,
    uint64Data,
    stringData,
  }: TensorProto,
  name: string,
): TensorProto {
  const data =
    rawData.length > 0
      ? { rawData }
      : { floatData, int32Data, int64Data, doubleData, uint64Data, stringData };
  return create(TensorProtoSchema, { name, dims, dataType, ...data });
}

/** Replaces a tensor's elements and element type. Name and shape remain. */
export function replaceTensorData(
  tensor: TensorProto,
  type: ElementType,
  data: ArrayBufferView,
): void {
  tensor.dataType = toDataType(type);
  tensor.rawData = byteView(data);
  tensor.floatData = [];
  tensor.int32Data = [];
  tensor.int64Data = [];
  tensor.doubleData = [];
  tensor.uint64Data = [];
}
