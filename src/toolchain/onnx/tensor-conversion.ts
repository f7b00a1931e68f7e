// Converts between tensors of ONNX files and tensors of sessions.

import { create } from "@bufbuild/protobuf";
import { byteView } from "../../core/bytes.ts";
import {
  type Datatype,
  type NumericDatatype,
  type Tensor,
  typedArrays,
} from "../../core/tensor.ts";
import { type TensorProto, TensorProtoSchema } from "./proto/onnx_pb.js";
import { toDataType, elementTypeOf, type ElementType, makeTensor } from "./tensor-data.ts";

const datatypes = new Map<ElementType, Datatype>([
  ["bool", "BOOL"],
  ["uint8", "UINT8"],
  ["uint16", "UINT16"],
  ["uint32", "UINT32"],
  ["uint64", "UINT64"],
  ["int8", "INT8"],
  ["int16", "INT16"],
  ["int32", "INT32"],
  ["int64", "INT64"],
  ["float16", "FP16"],
  ["bfloat16", "BF16"],
  ["float", "FP32"],
  ["double", "FP64"],
  ["string", "BYTES"],
]);
const elementTypes = new Map([...datatypes].map(([type, datatype]) => [datatype, type]));

/**
 * Returns undefined for types that sessions do not support: complex numbers, and types smaller than
 * 8 bits.
 */
export const datatypeOf = (type: ElementType): Datatype | undefined => datatypes.get(type);
export const elementTypeOfDatatype = (datatype: Datatype): ElementType =>
  elementTypes.get(datatype) ?? "undefined";

/** Copies a tensor. Returns undefined if `datatypeOf` does not support its type. */
export function toTensor(tensor: TensorProto): Tensor | undefined {
  const datatype = datatypeOf(elementTypeOf(tensor.dataType) ?? "");
  if (datatype === undefined) return undefined;
  const shape = tensor.dims.map(Number);
  if (datatype === "BYTES") return { datatype, shape, data: tensor.stringData };
  return { datatype, shape, data: readNumbers(tensor, datatype) } as Tensor;
}

function readNumbers(
  { rawData, floatData, doubleData, int32Data, int64Data, uint64Data }: TensorProto,
  datatype: NumericDatatype,
): Tensor["data"] {
  // Raw data is little-endian, as are all platforms that Node supports.
  if (rawData.length > 0) return new typedArrays[datatype](new Uint8Array(rawData).buffer);
  switch (datatype) {
    case "FP32":
      return Float32Array.from(floatData);
    case "FP64":
      return Float64Array.from(doubleData);
    case "INT64":
      return BigInt64Array.from(int64Data);
    case "UINT64":
      return BigUint64Array.from(uint64Data);
    case "UINT32":
      return Uint32Array.from(uint64Data, Number);
    default:
      return typedArrays[datatype].from(int32Data);
  }
}

/** Converts a tensor without copying its data. */
export function toTensorProto(name: string, tensor: Tensor): TensorProto {
  const dims = tensor.shape.map(BigInt);
  const type = elementTypeOfDatatype(tensor.datatype);
  if (tensor.datatype === "BYTES")
    return create(TensorProtoSchema, {
      name,
      dataType: toDataType(type),
      dims,
      stringData: [...tensor.data],
    });
  return makeTensor(name, type, dims, byteView(tensor.data));
}
