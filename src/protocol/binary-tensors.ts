// Encodes and decodes the Open Inference Protocol's binary tensor data extension. Elements are little-endian and
// row-major; a BYTES element is its length as uint32, followed by its bytes.

import { byteView } from "../core/bytes.ts";
import { type Datatype, countElements, type Tensor, typedArrays } from "../core/tensor.ts";
import { protocolErrors } from "./errors.ts";

const LENGTH_BYTES = 4;

/** Returns views of the tensor's data wherever its memory already has the wire form. Callers must not modify them. */
export function encodeBinaryData(tensor: Tensor): Uint8Array[] {
  if (tensor.datatype !== "BYTES") return [byteView(tensor.data)];
  return tensor.data.flatMap((element) => {
    const length = new Uint8Array(LENGTH_BYTES);
    new DataView(length.buffer).setUint32(0, element.byteLength, true);
    return [length, element];
  });
}

/**
 * Decodes a tensor. The result is a view of `bytes` if they are aligned; elements of a BYTES tensor are copies.
 * @param model name for error messages
 * @throws invalid_tensor if the bytes do not match datatype and shape
 */
export function decodeBinaryTensor(
  name: string,
  datatype: Datatype,
  shape: readonly number[],
  bytes: Uint8Array,
  model?: string,
): Tensor {
  const count = countElements(name, shape);
  if (datatype === "BYTES")
    return { datatype, shape, data: decodeStrings(name, count, bytes, model) };
  const ArrayType = typedArrays[datatype];
  const expected = count * ArrayType.BYTES_PER_ELEMENT;
  if (bytes.byteLength !== expected)
    throw protocolErrors.wrongByteSize(name, expected, bytes.byteLength, model);
  const { buffer, byteOffset } =
    bytes.byteOffset % ArrayType.BYTES_PER_ELEMENT === 0 ? bytes : new Uint8Array(bytes);
  return {
    datatype,
    shape,
    data: new ArrayType(buffer as ArrayBuffer, byteOffset, count),
  } as Tensor;
}

function decodeStrings(
  name: string,
  count: number,
  bytes: Uint8Array,
  model: string | undefined,
): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const elements: Uint8Array[] = [];
  let offset = 0;
  while (offset < bytes.byteLength) {
    const remaining = bytes.byteLength - offset;
    if (remaining < LENGTH_BYTES)
      throw protocolErrors.truncatedStringLength(name, remaining, model);
    const length = view.getUint32(offset, true);
    if (length > remaining - LENGTH_BYTES)
      throw protocolErrors.truncatedString(name, length, remaining - LENGTH_BYTES, model);
    if (elements.length === count)
      throw protocolErrors.wrongStringCount(name, count, "more", model);
    const start = offset + LENGTH_BYTES;
    offset = start + length;
    elements.push(new Uint8Array(bytes.subarray(start, offset)));
  }
  if (elements.length < count)
    throw protocolErrors.wrongStringCount(name, count, elements.length, model);
  return elements;
}
