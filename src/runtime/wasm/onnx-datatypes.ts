// Converts between ONNX element types (onnx.proto, TensorProto.DataType) and Open Inference Protocol datatypes.

import type { NumericDatatype } from "../../core/tensor.ts";

const ONNX_TYPES: Record<NumericDatatype, number> = {
  FP32: 1,
  UINT8: 2,
  INT8: 3,
  UINT16: 4,
  INT16: 5,
  INT32: 6,
  INT64: 7,
  BOOL: 9,
  FP16: 10,
  FP64: 11,
  UINT32: 12,
  UINT64: 13,
  BF16: 16,
};

const datatypes = new Map(
  Object.entries(ONNX_TYPES).map(([datatype, code]) => [code, datatype as NumericDatatype]),
);

export const toOnnxType = (datatype: NumericDatatype): number => ONNX_TYPES[datatype];
export const fromOnnxType = (onnxType: number): NumericDatatype | undefined =>
  datatypes.get(onnxType);
