// A file in memory that a server and its session's process have both open, for the data of large tensors.
//
// In a message it would cross a socket in pieces of the socket's buffer, for each of which both event loops have to find
// time: a busy server leaves its sessions idle meanwhile. Node has no other memory that two processes share.

import { closeSync, openSync, readSync, unlinkSync, writeSync } from "node:fs";
import { byteView } from "../../core/bytes.ts";
import {
  type NamedTensors,
  type NumericDatatype,
  type Tensor,
  typedArrays,
} from "../../core/tensor.ts";

/** Memory as a file; on Linux only. */
const SHARED_MEMORY_FOLDER = "/dev/shm";
/** Below that, a message is as quick. */
const MIN_SHARED_BYTES = 8_192;
/** Of one run's inputs, or outputs. What the file has held once it keeps, and containers limit the folder, often to 64 MiB. */
const MAX_SHARED_BYTES = 16_777_216;
/** Kernels read whole cache lines. */
const ALIGNMENT_BYTES = 64;

export interface SharedTensor {
  readonly datatype: NumericDatatype;
  readonly shape: readonly number[];
  /** In the file. */
  readonly offset: number;
  readonly byteLength: number;
}

/** What goes with a message: large data only as its place in the file. */
export type SharedTensors = Readonly<Record<string, Tensor | SharedTensor>>;

/** @returns undefined where there is none to be had; messages then carry everything */
export function openSharedMemory(): number | undefined {
  const path = `${SHARED_MEMORY_FOLDER}/edgetier-${crypto.randomUUID()}`;
  try {
    const file = openSync(path, "wx+", 0o600);
    unlinkSync(path); // gone with its last user, however that ends
    return file;
  } catch {
    return undefined;
  }
}

export const closeSharedMemory = closeSync;

/** Puts large data into the file, over what was there. @returns all as it was where there is no room */
export function writeSharedTensors(file: number, tensors: NamedTensors): SharedTensors {
  let end = 0;
  const placed: Record<string, Tensor | SharedTensor> = {};
  for (const [name, tensor] of Object.entries(tensors)) {
    const { datatype, shape, data } = tensor;
    if (datatype === "BYTES" || data.byteLength < MIN_SHARED_BYTES) {
      placed[name] = tensor;
      continue;
    }
    const offset = Math.ceil(end / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
    end = offset + data.byteLength;
    if (end > MAX_SHARED_BYTES || !tryWrite(file, byteView(data), offset)) return tensors;
    placed[name] = { datatype, shape, offset, byteLength: data.byteLength };
  }
  return placed;
}

function tryWrite(file: number, bytes: Uint8Array, offset: number): boolean {
  try {
    return writeSync(file, bytes, 0, bytes.byteLength, offset) === bytes.byteLength;
  } catch {
    return false;
  }
}

/**
 * @param allocate gives a buffer of that size at least; the tensors are views of it
 * @throws where the file does not hold what it should
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
  const found = readSync(file, new Uint8Array(buffer, 0, end), 0, end, 0);
  if (found !== end) throw new RangeError(`the shared file holds ${found} bytes of ${end}`);
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
