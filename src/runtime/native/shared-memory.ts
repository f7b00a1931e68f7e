// Shared memory: a file in memory, open in a server and in its session's process, for the data of large tensors.
//
// A message crosses a socket in pieces of the socket's buffer, and each piece needs a turn of both event loops. A busy
// server would leave its sessions idle meanwhile. Node has no other memory that two processes can share.

import { closeSync, openSync, readSync, unlinkSync, writeSync } from "node:fs";
import { byteView } from "../../core/bytes.ts";
import {
  type NamedTensors,
  type NumericDatatype,
  type Tensor,
  typedArrays,
} from "../../core/tensor.ts";

/** Folder of files in memory, which only Linux has. */
const SHARED_MEMORY_FOLDER = "/dev/shm";
/** Minimum size of shared data, because a message is as fast for smaller data. */
const MIN_SHARED_BYTES = 8_192;
/** Limit per run and direction. The file never shrinks, and containers often limit the folder to 64 MiB. */
const MAX_SHARED_BYTES = 16_777_216;
/** Alignment to cache lines, which kernels read as a whole. */
const ALIGNMENT_BYTES = 64;

export interface SharedTensor {
  readonly datatype: NumericDatatype;
  readonly shape: readonly number[];
  /** Offset in the file. */
  readonly offset: number;
  readonly byteLength: number;
}

/** Tensors of a message; large data is replaced by its location in the file. */
export type SharedTensors = Readonly<Record<string, Tensor | SharedTensor>>;

/** @returns undefined if shared memory is unavailable; messages then carry all data */
export function openSharedMemory(): number | undefined {
  const path = `${SHARED_MEMORY_FOLDER}/edgetier-${crypto.randomUUID()}`;
  try {
    const file = openSync(path, "wx+", 0o600);
    unlinkSync(path); // the kernel frees the file with its last user, even after a crash
    return file;
  } catch {
    return undefined;
  }
}

export const closeSharedMemory = closeSync;

/** Writes large data over the file's old content. @returns the tensors unchanged if they do not fit */
export function writeSharedTensors(file: number, tensors: NamedTensors): SharedTensors {
  let end = 0;
  const shared: Record<string, Tensor | SharedTensor> = {};
  for (const [name, tensor] of Object.entries(tensors)) {
    const { datatype, shape, data } = tensor;
    if (datatype === "BYTES" || data.byteLength < MIN_SHARED_BYTES) {
      shared[name] = tensor;
      continue;
    }
    const offset = Math.ceil(end / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
    end = offset + data.byteLength;
    if (end > MAX_SHARED_BYTES || !tryWrite(file, byteView(data), offset)) return tensors;
    shared[name] = { datatype, shape, offset, byteLength: data.byteLength };
  }
  return shared;
}

function tryWrite(file: number, bytes: Uint8Array, offset: number): boolean {
  try {
    return writeSync(file, bytes, 0, bytes.byteLength, offset) === bytes.byteLength;
  } catch {
    return false;
  }
}

/**
 * @param allocate returns a buffer of at least the given size; the tensors are views of it
 * @throws RangeError if the file is shorter than its tensors
 */
export function readSharedTensors(
  file: number,
  tensors: SharedTensors,
  allocate = (byteLength: number) => new ArrayBuffer(byteLength),
): NamedTensors {
  const end = Math.max(
    0,
    ...Object.values(tensors).map((tensor) =>
      "offset" in tensor ? tensor.offset + tensor.byteLength : 0,
    ),
  );
  if (end === 0) return tensors as NamedTensors;
  const buffer = allocate(end);
  const readBytes = readSync(file, new Uint8Array(buffer, 0, end), 0, end, 0);
  if (readBytes !== end)
    throw new RangeError(`the shared file has ${readBytes} bytes instead of ${end}`);
  return Object.fromEntries(
    Object.entries(tensors).map(([name, tensor]) => [
      name,
      "offset" in tensor ? toTensorView(tensor, buffer) : tensor,
    ]),
  );
}

function toTensorView(
  { datatype, shape, offset, byteLength }: SharedTensor,
  buffer: ArrayBuffer,
): Tensor {
  const ArrayType = typedArrays[datatype];
  return {
    datatype,
    shape,
    data: new ArrayType(buffer, offset, byteLength / ArrayType.BYTES_PER_ELEMENT),
  } as Tensor;
}
