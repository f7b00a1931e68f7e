// Tensors between EdgeTier's form and onnxruntime-node's.

import { coreErrors } from "../../core/common-errors.ts";
import { Tensor as OrtTensor, type InferenceSession } from "onnxruntime-node";
import type { Datatype, Tensor, TensorSpec } from "../../core/tensor.ts";

/** ONNX Runtime's name of each datatype that its JavaScript binding can pass; BF16 is not among them. */
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

/** @throws session_failed for an input or output that is no tensor of a known datatype. */
export function toTensorSpec(metadata: InferenceSession.ValueMetadata): TensorSpec {
  const datatype = metadata.isTensor ? datatypes.get(metadata.type) : undefined;
  if (!metadata.isTensor || datatype === undefined)
    throw coreErrors.sessionFailed(
      `${metadata.name} is not a tensor of a datatype that can be served`,
    );
  return {
    name: metadata.name,
    datatype,
    shape: metadata.shape.map((dimension) => (typeof dimension === "number" ? dimension : -1)),
  };
}

/** @throws invalid_tensor for what ONNX Runtime's JavaScript binding cannot take. */
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
      // Where the engine has a Float16Array, OrtTensor turns the data into one, and the native binding of 1.30 refuses that
      // ("not enough space"). So make it of 16-bit integers and name the type afterwards.
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
    throw coreErrors.sessionFailed(`output ${name} is ${tensor.type}, which cannot be served`);
  const shape = [...tensor.dims];
  const { data } = tensor;
  if (Array.isArray(data))
    return { datatype: "BYTES", shape, data: data.map((text) => encoder.encode(text)) };
  if (datatype === "FP16")
    return { datatype, shape, data: new Uint16Array(data.buffer, data.byteOffset, data.length) };
  return { datatype, shape, data } as Tensor; // ONNX Runtime gives the typed array that belongs to the type
}

function decodeText(name: string, element: Uint8Array): string {
  if (element.includes(0))
    throw coreErrors.invalidTensor(
      name,
      "an element holds NUL, at which this runtime would cut it",
    );
  try {
    return decoder.decode(element);
  } catch {
    throw coreErrors.invalidUtf8(`Tensor ${name}`);
  }
}
