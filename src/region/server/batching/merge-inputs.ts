// Decides which requests may share a run, and concatenates their inputs along the first dimension, padded if allowed.

import { byteView } from "../../../core/bytes.ts";
import {
  type NamedTensors,
  type NumericDatatype,
  type Tensor,
  typedArrays,
} from "../../../core/tensor.ts";
import type { BufferPool } from "../buffer-pool.ts";
import type { ExecutionRequest } from "../executor.ts";
import {
  findBucketLength,
  hasVariableAxis,
  type PaddingRule,
  type RequestPadding,
} from "./padding.ts";

export interface MergedInputs {
  readonly inputs: NamedTensors;
  /** Returns the inputs' buffers to the pool. Call it after the run. */
  release(): void;
}

/** Returns the first dimension of the inputs; 1 if they have none in common. */
export function rowCountOf({ inputs }: ExecutionRequest): number {
  const rows = Object.values(inputs).map((tensor) => tensor.shape[0]);
  return rows[0] !== undefined && rows[0] > 0 && rows.every((count) => count === rows[0])
    ? rows[0]
    : 1;
}

/**
 * Computes a key that is equal for requests whose inputs can be merged. All dimensions must agree, except the first and padded ones.
 * @param request whose inputs match the session's (validate-inputs.ts), so that names and datatypes agree
 * @returns undefined for a request that can only run by itself
 */
export function computeBatchKey(
  { session, inputs }: ExecutionRequest,
  padding: RequestPadding | undefined,
): string | undefined {
  // Without a variable first dimension there is no batch.
  if (session.inputs.length === 0 || session.inputs.some((spec) => spec.shape[0] !== -1))
    return undefined;
  const rows = inputs[session.inputs[0]?.name ?? ""]?.shape[0];
  if (rows === 0) return undefined;
  const padded =
    padding === undefined
      ? ""
      : `${padding.axis}:${padding.value}:${findBucketLength(padding, padding.length) ?? (padding.buckets === undefined ? "" : padding.length)}`;
  const dimensions = session.inputs.map((spec) => {
    const tensor = inputs[spec.name];
    if (tensor === undefined || tensor.shape[0] !== rows) return undefined;
    return tensor.shape.map((dimension, at) =>
      at === 0 || (at === padding?.axis && hasVariableAxis(spec, at)) ? "" : dimension,
    );
  });
  return dimensions.includes(undefined) ? undefined : [padded, ...dimensions].join(";");
}

/** Returns the padded length of a run whose requests share a key. */
export function computePaddedLength(paddings: readonly RequestPadding[]): number | undefined {
  const [first] = paddings;
  if (first === undefined) return undefined;
  const longest = Math.max(...paddings.map(({ length }) => length));
  return findBucketLength(first, longest) ?? longest;
}

/** @param requests with the same batch key, at least one */
export function mergeInputs(
  requests: readonly ExecutionRequest[],
  padding: PaddingRule | undefined,
  runLength: number | undefined,
  pool: BufferPool,
): MergedInputs {
  const buffers: ArrayBuffer[] = [];
  const allocate = (byteLength: number) => {
    const buffer = pool.acquire(byteLength);
    buffers.push(buffer);
    return buffer;
  };
  const merged = (requests[0]?.session.inputs ?? []).map((spec) => {
    const parts = requests.flatMap((request) => request.inputs[spec.name] ?? []);
    return [
      spec.name,
      concatenate(
        parts,
        padding !== undefined && hasVariableAxis(spec, padding.axis) ? padding : undefined,
        runLength ?? 0,
        allocate,
      ),
    ] as const;
  });
  return {
    inputs: Object.fromEntries(merged),
    release: () => buffers.splice(0).forEach((buffer) => pool.release(buffer)),
  };
}

function concatenate(
  parts: readonly Tensor[],
  padding: PaddingRule | undefined,
  runLength: number,
  allocate: (byteLength: number) => ArrayBuffer,
): Tensor {
  const [first] = parts;
  if (first === undefined) throw new RangeError("nothing to merge");
  const rows = parts.reduce((sum, part) => sum + (part.shape[0] ?? 0), 0);
  const shape = [rows, ...first.shape.slice(1)];
  if (first.datatype === "BYTES")
    return {
      datatype: "BYTES",
      shape,
      data: parts.flatMap((part) => (part.datatype === "BYTES" ? part.data : [])),
    };

  if (padding !== undefined) shape[padding.axis] = runLength;
  const ArrayType = typedArrays[first.datatype];
  const buffer = allocate(product(shape) * ArrayType.BYTES_PER_ELEMENT);
  const target = new Uint8Array(buffer);
  let offset = 0;
  for (const part of parts) {
    if (part.datatype === "BYTES") continue;
    const source = byteView(part.data);
    if (padding === undefined || part.shape[padding.axis] === runLength) target.set(source, offset);
    else copyPadded(source, part, target.subarray(offset), shape, padding);
    offset += (part.shape[0] ?? 0) * product(shape.slice(1)) * ArrayType.BYTES_PER_ELEMENT;
  }
  return { datatype: first.datatype, shape, data: new ArrayType(buffer) } as Tensor;
}

/** Copies each block of the padded dimension, followed by its padding. */
function copyPadded(
  source: Uint8Array,
  { shape, datatype }: Tensor & { readonly datatype: NumericDatatype },
  target: Uint8Array,
  paddedShape: readonly number[],
  { axis, value }: PaddingRule,
): void {
  const inner = product(shape.slice(axis + 1));
  const blockBytes = (shape[axis] ?? 0) * inner * typedArrays[datatype].BYTES_PER_ELEMENT;
  const filling = createFilledBytes(
    datatype,
    ((paddedShape[axis] ?? 0) - (shape[axis] ?? 0)) * inner,
    value,
  );
  const paddedBlockBytes = blockBytes + filling.byteLength;
  const blocks = product(shape.slice(0, axis));
  for (let block = 0; block < blocks; block++) {
    const offset = block * paddedBlockBytes;
    target.set(source.subarray(block * blockBytes, (block + 1) * blockBytes), offset);
    target.set(filling, offset + blockBytes);
  }
}

/** @param value 0 for datatypes that hold bit patterns (padding.ts) */
function createFilledBytes(datatype: NumericDatatype, count: number, value: number): Uint8Array {
  const elements = new typedArrays[datatype](count);
  if (elements instanceof BigInt64Array || elements instanceof BigUint64Array)
    elements.fill(BigInt(Math.trunc(value)));
  else elements.fill(value);
  return byteView(elements);
}

export const product = (dimensions: readonly number[]) =>
  dimensions.reduce((result, dimension) => result * dimension, 1);
