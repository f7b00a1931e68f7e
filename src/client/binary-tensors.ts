// Infer messages with their tensors as bytes: the Open Inference Protocol's binary tensor data extension. Little-endian, as every
// platform of today's browsers and phones is; a BYTES element is its length as uint32, and its bytes.

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

/** What the JSON says of a tensor. */
export interface TensorHeader {
  readonly name: string;
  readonly datatype: Tensor["datatype"];
  readonly shape: readonly number[];
  readonly parameters?: Parameters;
  readonly data?: readonly unknown[];
}

export function encodeTensors(tensors: NamedTensors): {
  readonly heads: readonly TensorHeader[];
  readonly bytes: readonly Uint8Array[];
} {
  const all = Object.entries(tensors).map(([name, { datatype, shape, data }]) => {
    const bytes =
      "buffer" in data
        ? byteView(data)
        : concatBytes(
            data.flatMap((element) => [byteView(Uint32Array.of(element.byteLength)), element]),
          );
    return {
      head: { name, datatype, shape, parameters: { binary_data_size: bytes.byteLength } },
      bytes,
    };
  });
  return { heads: all.map(({ head }) => head), bytes: all.map(({ bytes }) => bytes) };
}

/** @param bytes what follows the JSON @throws invalid_answer */
export function decodeTensors(heads: readonly TensorHeader[], bytes: Uint8Array): NamedTensors {
  let offset = 0;
  return Object.fromEntries(
    heads.map(({ name, datatype, shape, parameters, data }) => {
      const size = Number(parameters?.["binary_data_size"] ?? 0);
      const part = bytes.slice(offset, (offset += size)); // a copy, which is aligned
      if (part.byteLength < size)
        throw clientError("invalid_answer", `Tensor ${name} is cut off.`, "Try again.");
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

/** Of a server that has no binary form. */
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
  for (let at = 0; at < part.byteLength;) {
    const end = at + 4 + view.getUint32(at, true);
    elements.push(part.subarray(at + 4, end));
    at = end;
  }
  return elements;
}
