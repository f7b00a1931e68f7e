// A tensor's elements as bytes: the Open Inference Protocol's binary tensor data extension. Little-endian, row-major; a
// BYTES element is its length as uint32, and its bytes.

import { protocolErrors } from "./errors.ts";
import { byteView } from "../core/bytes.ts";
import { type Datatype, countElements, type Tensor, typedArrays } from "../core/tensor.ts";

const LENGTH_BYTES = 4;

/** Views of the tensor's own data where it has that form already; nothing is changed through them. */
export function encodeBinaryData(tensor: Tensor): Uint8Array[] {
  if (tensor.datatype !== "BYTES") return [byteView(tensor.data)];
  return tensor.data.flatMap((element) => {
    const length = new Uint8Array(LENGTH_BYTES);
    new DataView(length.buffer).setUint32(0, element.byteLength, true);
    return [length, element];
  });
}

/**
 * @param bytes all of the tensor's. The result is a view of them where they are aligned; a BYTES tensor's elements are copies.
 * @param model its name, for the errors
 * @throws invalid_tensor for bytes that do not fit datatype and shape
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
    return { datatype, shape, data: decodeElements(name, count, bytes, model) };
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

function decodeElements(
  name: string,
  count: number,
  bytes: Uint8Array,
  model: string | undefined,
): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const elements: Uint8Array[] = [];
  let offset = 0;
  while (offset < bytes.byteLength) {
    const left = bytes.byteLength - offset;
    if (left < LENGTH_BYTES) throw protocolErrors.cutOffStringLength(name, left, model);
    const length = view.getUint32(offset, true);
    if (length > left - LENGTH_BYTES)
      throw protocolErrors.cutOffString(name, length, left - LENGTH_BYTES, model);
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
