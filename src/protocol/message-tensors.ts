// The tensors of an infer message: each in JSON with its data, or with its data among the bytes after the JSON.

import { errors, shown } from "../core/errors.ts";
import type { Datatype, NamedTensors, Tensor } from "../core/tensor.ts";
import { decodeBinaryTensor, encodeBinaryData } from "./binary-tensors.ts";
import { decodeJsonTensor, encodeJsonData } from "./json-tensors.ts";

/** As parsed from the JSON. */
export interface TensorMessage {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
  readonly data?: unknown;
}

/** @param binary what follows the JSON: the data of the tensors that say so, in their order */
export function readTensors(messages: readonly TensorMessage[], binary: Uint8Array): NamedTensors {
  let offset = 0;
  const take = (name: string, size: number): Uint8Array => {
    const bytes = binary.subarray(offset, offset + size);
    if (bytes.byteLength < size) throw errors.invalidRequest([`unexpected size for input '${name}', expecting ${size - bytes.byteLength} additional bytes`]);
    offset += size;
    return bytes;
  };
  const tensors = messages.map((message, index): [string, Tensor] => {
    refuseRepeated(messages, message.name, index);
    return [message.name, readData(message, take)];
  });
  if (offset < binary.byteLength) throw errors.invalidRequest([`unexpected additional input data for model: ${binary.byteLength - offset} bytes`]);
  return Object.fromEntries(tensors);
}

/** The one place that chooses between the forms in which a tensor's data may come. */
function readData({ name, datatype, shape, parameters, data }: TensorMessage, take: (name: string, size: number) => Uint8Array): Tensor {
  if ("shared_memory_region" in parameters) throw errors.unsupported(`Shared memory (tensor ${name})`, "Send the tensor's data in the request.");
  const size = parameters["binary_data_size"];
  if ((size !== undefined) === (data !== undefined)) throw errors.invalidTensor(name, "it needs exactly one of data and parameters.binary_data_size");
  if (size !== undefined) {
    if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0) throw errors.invalidTensor(name, `binary_data_size ${shown(size)} is not a whole number from 0`);
    return decodeBinaryTensor(name, datatype, shape, take(name, size));
  }
  if (datatype === "FP16" || datatype === "BF16") throw errors.invalidTensor(name, `${datatype} has no form in JSON; it needs binary data`);
  return decodeJsonTensor(name, datatype, shape, data);
}

/** @param isBinary whether a tensor's data goes as bytes after the JSON @throws invalid_tensor for one that has no form in JSON */
export function writeTensors(tensors: NamedTensors, isBinary: (name: string) => boolean): { messages: object[]; binary: Uint8Array[] } {
  const binary: Uint8Array[] = [];
  const messages = Object.entries(tensors).map(([name, tensor]) => {
    const { datatype, shape } = tensor;
    if (!isBinary(name)) return { name, datatype, shape, data: encodeJsonData(name, tensor) };
    const parts = encodeBinaryData(tensor);
    binary.push(...parts);
    return { name, datatype, shape, parameters: { binary_data_size: parts.reduce((total, { byteLength }) => total + byteLength, 0) } };
  });
  return { messages, binary };
}

/** @throws invalid_tensor where an earlier one has the name */
export function refuseRepeated(list: readonly { readonly name: string }[], name: string, index: number): void {
  if (list.findIndex((other) => other.name === name) !== index) throw errors.invalidTensor(name, "it is given more than once");
}
