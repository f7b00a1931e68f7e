// The tensors of an infer message: each in JSON with its data, or with its data among the bytes after the JSON.

import { protocolErrors } from "./errors.ts";
import { coreErrors } from "../core/common-errors.ts";
import { shown } from "../core/errors.ts";
import type { Datatype, NamedTensors, Tensor } from "../core/tensor.ts";
import { decodeBinaryTensor, encodeBinaryData } from "./binary-tensors.ts";
import { decodeJsonTensor, encodeJsonData } from "./json-tensors.ts";

/** As parsed from the JSON. */
export interface WireTensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
  readonly data?: unknown;
}

/**
 * @param binary what follows the JSON: the data of the tensors that say so, in their order
 * @param model its name, for the errors
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

/** The one place that chooses between the forms in which a tensor's data may come. */
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
        `binary_data_size: ${shown(size)} is not a whole number from 0 (input ${name})`,
      ]);
    return decodeBinaryTensor(name, datatype, shape, take(name, size), model);
  }
  if (datatype === "FP16" || datatype === "BF16") throw protocolErrors.noJsonForm(datatype, name);
  return decodeJsonTensor(name, datatype, shape, data);
}

/** @param isBinary whether a tensor's data goes as bytes after the JSON @throws invalid_tensor for one that has no form in JSON */
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

/** @throws invalid_tensor where an earlier one has the name */
export function rejectDuplicate(
  kind: "input" | "output",
  list: readonly { readonly name: string }[],
  name: string,
  index: number,
): void {
  if (list.findIndex((other) => other.name === name) !== index)
    throw protocolErrors.repeatedTensor(kind, name);
}
