// A tensor's elements as bytes: the Open Inference Protocol's binary tensor data extension. Little-endian, row-major; a
// BYTES element is its length as uint32, and its bytes.

import { bytesOf } from "../core/bytes.ts";
import { errors } from "../core/errors.ts";
import { type Datatype, elementCount, type Tensor, typedArrays } from "../core/tensor.ts";

const LENGTH_BYTES = 4;

/** Views of the tensor's own data where it has that form already; nothing is changed through them. */
export function encodeBinaryData(tensor: Tensor): Uint8Array[] {
  if (tensor.datatype !== "BYTES") return [bytesOf(tensor.data)];
  return tensor.data.flatMap((element) => {
    const length = new Uint8Array(LENGTH_BYTES);
    new DataView(length.buffer).setUint32(0, element.byteLength, true);
    return [length, element];
  });
}

/**
 * @param bytes all of the tensor's; copied, so that the result holds on to nothing larger
 * @throws invalid_tensor for bytes that do not fit datatype and shape
 */
export function decodeBinaryTensor(name: string, datatype: Datatype, shape: readonly number[], bytes: Uint8Array): Tensor {
  const count = elementCount(name, shape);
  if (datatype === "BYTES") return { datatype, shape, data: readElements(name, count, bytes) };
  const ArrayType = typedArrays[datatype];
  const expected = count * ArrayType.BYTES_PER_ELEMENT;
  if (bytes.byteLength !== expected) throw errors.invalidTensor(name, `${bytes.byteLength} bytes of binary data, but its shape [${shape.join(", ")}] has ${expected}`);
  return { datatype, shape, data: new ArrayType(bytes.slice().buffer) } as Tensor;
}

function readElements(name: string, count: number, bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const elements: Uint8Array[] = [];
  let offset = 0;
  while (offset < bytes.byteLength) {
    if (offset + LENGTH_BYTES > bytes.byteLength) throw errors.invalidTensor(name, `the length of element ${elements.length} is cut off`);
    const start = offset + LENGTH_BYTES;
    offset = start + view.getUint32(offset, true);
    if (offset > bytes.byteLength) throw errors.invalidTensor(name, `element ${elements.length} ends ${offset - bytes.byteLength} bytes after the data`);
    if (elements.length === count) throw errors.invalidTensor(name, `more elements than the ${count} of its shape`);
    elements.push(bytes.slice(start, offset));
  }
  if (elements.length < count) throw errors.invalidTensor(name, `${elements.length} elements, but its shape has ${count}`);
  return elements;
}
