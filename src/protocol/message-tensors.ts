// Encodes and decodes the tensors of an infer message. A tensor's data is in the JSON, or in the bytes after it.

import { coreErrors } from "../core/common-errors.ts";
import { formatValue } from "../core/errors.ts";
import type { Datatype, NamedTensors, Tensor } from "../core/tensor.ts";
import { decodeBinaryTensor, encodeBinaryData } from "./binary-tensors.ts";
import { protocolErrors } from "./errors.ts";
import { decodeJsonTensor, encodeJsonData } from "./json-tensors.ts";

/** A tensor in its parsed JSON form. */
export interface WireTensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
  readonly data?: unknown;
}

/**
 * @param binary bytes after the JSON: the data of all tensors with `binary_data_size`, in their order
 * @param model name for error messages
 */
export function decodeWireTensors(
  messages: readonly WireTensor[],
  binary: Uint8Array,
  model?: string,
): NamedTensors {
  let offset = 0;
  const take = (name: string, size: number): Uint8Array => {
    const bytes = binary.subarray(offset, offset + size);
    if (bytes.byteLength < size)
      throw protocolErrors.missingBinaryData(name, size - bytes.byteLength, model);
    offset += size;
    return bytes;
  };
  const tensors = messages.map((message, index): [string, Tensor] => {
    rejectDuplicate("input", messages, message.name, index);
    return [message.name, decodeTensorData(message, take, model)];
  });
  if (offset < binary.byteLength)
    throw protocolErrors.extraBinaryData(binary.byteLength - offset, model);
  return Object.fromEntries(tensors);
}

/** Decodes a tensor's data from whichever single form the message uses. */
function decodeTensorData(
  { name, datatype, shape, parameters, data }: WireTensor,
  take: (name: string, size: number) => Uint8Array,
  model: string | undefined,
): Tensor {
  if ("shared_memory_region" in parameters)
    throw coreErrors.unsupported(
      `Shared memory (tensor ${name})`,
      "Send the tensor's data in the request.",
    );
  const size = parameters["binary_data_size"];
  const forms = [data !== undefined && "data", size !== undefined && "binary_data_size"].filter(
    (form) => form !== false,
  );
  if (forms.length !== 1) throw protocolErrors.dataInSeveralForms(name, forms);
  if (size !== undefined) {
    if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0)
      throw protocolErrors.unparsableFields([
        `binary_data_size: ${formatValue(size)} is not a non-negative integer (input ${name})`,
      ]);
    return decodeBinaryTensor(name, datatype, shape, take(name, size), model);
  }
  if (datatype === "FP16" || datatype === "BF16") throw protocolErrors.noJsonForm(datatype, name);
  return decodeJsonTensor(name, datatype, shape, data);
}

/**
 * @param isBinary selects the tensors whose data follows the JSON as bytes
 * @throws invalid_tensor for a tensor without a JSON form
 */
export function encodeWireTensors(
  tensors: NamedTensors,
  isBinary: (name: string) => boolean,
): { messages: object[]; binary: Uint8Array[] } {
  const binary: Uint8Array[] = [];
  const messages = Object.entries(tensors).map(([name, tensor]) => {
    const { datatype, shape } = tensor;
    if (!isBinary(name)) return { name, datatype, shape, data: encodeJsonData(name, tensor) };
    const parts = encodeBinaryData(tensor);
    binary.push(...parts);
    return {
      name,
      datatype,
      shape,
      parameters: {
        binary_data_size: parts.reduce((total, { byteLength }) => total + byteLength, 0),
      },
    };
  });
  return { messages, binary };
}

/** @throws invalid_tensor if an earlier tensor has the same name */
export function rejectDuplicate(
  kind: "input" | "output",
  list: readonly { readonly name: string }[],
  name: string,
  index: number,
): void {
  if (list.findIndex((other) => other.name === name) !== index)
    throw protocolErrors.repeatedTensor(kind, name);
}
