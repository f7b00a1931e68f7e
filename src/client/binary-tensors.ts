// Binary tensors: encodes and decodes infer messages by the Open Inference Protocol's binary tensor data extension.
// Numbers are little-endian, like the platforms of all current browsers and phones. A BYTES element is its length as
// uint32, followed by its bytes.

import { byteView, concatBytes } from "../core/bytes.ts";
import type { NamedTensors, Tensor } from "../core/tensor.ts";
import { typedArrays } from "../core/typed-arrays.ts";
import type { Parameters } from "../protocol/open-inference.ts";
import { clientError } from "./errors.ts";
import { toUtf8 } from "./utf8.ts";

interface NumberArray {
  new (buffer: ArrayBuffer): ArrayLike<number | bigint>;
  from(values: readonly unknown[]): ArrayLike<number | bigint>;
}

/** Description of a tensor in the JSON part of a message. */
export interface TensorHeader {
  readonly name: string;
  readonly datatype: Tensor["datatype"];
  readonly shape: readonly number[];
  readonly parameters?: Parameters;
  readonly data?: readonly unknown[];
}

export function encodeTensors(tensors: NamedTensors): {
  readonly headers: readonly TensorHeader[];
  readonly bytes: readonly Uint8Array[];
} {
  const encoded = Object.entries(tensors).map(([name, { datatype, shape, data }]) => {
    const bytes =
      "buffer" in data
        ? byteView(data)
        : concatBytes(
            data.flatMap((element) => [byteView(Uint32Array.of(element.byteLength)), element]),
          );
    return {
      header: { name, datatype, shape, parameters: { binary_data_size: bytes.byteLength } },
      bytes,
    };
  });
  return {
    headers: encoded.map(({ header }) => header),
    bytes: encoded.map(({ bytes }) => bytes),
  };
}

/**
 * @param bytes the part of the message after the JSON
 * @throws invalid_answer
 */
export function decodeTensors(headers: readonly TensorHeader[], bytes: Uint8Array): NamedTensors {
  let offset = 0;
  return Object.fromEntries(
    headers.map(({ name, datatype, shape, parameters, data }) => {
      const size = Number(parameters?.["binary_data_size"] ?? 0);
      // Typed arrays need aligned memory, which the copy guarantees.
      const part = bytes.slice(offset, (offset += size));
      if (part.byteLength < size)
        throw clientError(
          "invalid_answer",
          `Tensor ${name} has ${part.byteLength} of ${size} bytes.`,
          "Try again.",
        );
      return [
        name,
        {
          datatype,
          shape,
          data:
            data === undefined ? decodeBinaryData(datatype, part) : decodeJsonData(datatype, data),
        } as Tensor,
      ];
    }),
  );
}

function decodeBinaryData(datatype: Tensor["datatype"], part: Uint8Array<ArrayBuffer>): unknown {
  return datatype === "BYTES"
    ? splitBytesElements(part)
    : new (typedArrays[datatype] as NumberArray)(part.buffer);
}

/** Decodes the response of a server without the binary extension. */
function decodeJsonData(datatype: Tensor["datatype"], data: readonly unknown[]): unknown {
  const flat = data.flat(Number.POSITIVE_INFINITY);
  if (datatype === "BYTES") return flat.map((text) => toUtf8(String(text)));
  return (typedArrays[datatype] as NumberArray).from(
    datatype.endsWith("INT64") ? flat.map((value) => BigInt(String(value))) : flat,
  );
}

function splitBytesElements(part: Uint8Array): Uint8Array[] {
  const view = new DataView(part.buffer);
  const elements: Uint8Array[] = [];
  for (let start = 0; start < part.byteLength;) {
    const end = start + 4 + view.getUint32(start, true);
    elements.push(part.subarray(start + 4, end));
    start = end;
  }
  return elements;
}
