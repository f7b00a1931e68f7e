// Converts tensors between EdgeTier's and onnxruntime-node's types.

import { Tensor as OrtTensor, type InferenceSession } from "onnxruntime-node";
import { coreErrors } from "../../core/common-errors.ts";
import type { Datatype, Tensor, TensorSpec } from "../../core/tensor.ts";

/** ONNX Runtime's names of the datatypes that its JavaScript binding supports, which excludes BF16. */
const ORT_TYPES = {
  BOOL: "bool",
  UINT8: "uint8",
  UINT16: "uint16",
  UINT32: "uint32",
  UINT64: "uint64",
  INT8: "int8",
  INT16: "int16",
  INT32: "int32",
  INT64: "int64",
  FP16: "float16",
  FP32: "float32",
  FP64: "float64",
  BYTES: "string",
} as const satisfies Partial<Record<Datatype, OrtTensor.Type>>;

const datatypes = new Map<string, Datatype>(
  Object.entries(ORT_TYPES).map(([datatype, type]) => [type, datatype as keyof typeof ORT_TYPES]),
);

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @throws session_failed for an input or output that is not a tensor of a known datatype */
export function toTensorSpec(metadata: InferenceSession.ValueMetadata): TensorSpec {
  const datatype = metadata.isTensor ? datatypes.get(metadata.type) : undefined;
  if (!metadata.isTensor || datatype === undefined)
    throw coreErrors.sessionFailed(`${metadata.name} is not a tensor of a supported datatype`);
  return {
    name: metadata.name,
    datatype,
    shape: metadata.shape.map((dimension) => (typeof dimension === "number" ? dimension : -1)),
  };
}

/** @throws invalid_tensor for a tensor that ONNX Runtime's JavaScript binding does not support */
export function toOrtTensor(name: string, tensor: Tensor): OrtTensor {
  switch (tensor.datatype) {
    case "BF16":
      throw coreErrors.invalidTensor(name, "BF16 is not supported by this runtime");
    case "BYTES":
      return new OrtTensor(
        "string",
        tensor.data.map((element) => decodeText(name, element)),
        tensor.shape,
      );
    case "FP16":
      // If the engine has Float16Array, OrtTensor converts the data to one, which the native binding of 1.30 rejects
      // ("not enough space"). The tensor is therefore created from 16-bit integers, and its type is set afterwards.
      return Object.defineProperty(new OrtTensor("uint16", tensor.data, tensor.shape), "type", {
        value: "float16",
      });
    default:
      return new OrtTensor(ORT_TYPES[tensor.datatype], tensor.data, tensor.shape);
  }
}

export function fromOrtTensor(name: string, tensor: OrtTensor): Tensor {
  const datatype = datatypes.get(tensor.type);
  if (datatype === undefined)
    throw coreErrors.sessionFailed(`output ${name} has the unsupported type ${tensor.type}`);
  const shape = [...tensor.dims];
  const { data } = tensor;
  if (Array.isArray(data))
    return { datatype: "BYTES", shape, data: data.map((text) => encoder.encode(text)) };
  if (datatype === "FP16")
    return { datatype, shape, data: new Uint16Array(data.buffer, data.byteOffset, data.length) };
  return { datatype, shape, data } as Tensor; // ONNX Runtime returns the typed array of the datatype
}

function decodeText(name: string, element: Uint8Array): string {
  if (element.includes(0))
    throw coreErrors.invalidTensor(
      name,
      "an element contains NUL, at which this runtime would truncate it",
    );
  try {
    return decoder.decode(element);
  } catch {
    throw coreErrors.invalidUtf8(`Tensor ${name}`);
  }
}
