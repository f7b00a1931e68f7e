// Which works may share a run, and how: inputs one behind the other along their first dimension, padded where they may be.

import { byteView } from "../../../core/bytes.ts";
import {
  type NamedTensors,
  type NumericDatatype,
  type Tensor,
  typedArrays,
} from "../../../core/tensor.ts";
import type { ExecutionRequest } from "../executor.ts";
import type { BufferPool } from "../buffer-pool.ts";
import {
  findBucketLength,
  hasVariableAxis,
  type PaddingRule,
  type RequestPadding,
} from "./padding.ts";

export interface MergedInputs {
  readonly inputs: NamedTensors;
  /** To be called when the run is over: the inputs' buffers are used again. */
  release(): void;
}

/** The first dimension of its inputs; 1 where they have none in common. */
export function rowCountOf({ inputs }: ExecutionRequest): number {
  const rows = Object.values(inputs).map((tensor) => tensor.shape[0]);
  return rows[0] !== undefined && rows[0] > 0 && rows.every((one) => one === rows[0]) ? rows[0] : 1;
}

/**
 * The same for works whose inputs can be merged: their dimensions agree, but for the first, and for those that are padded.
 * @param work whose inputs fit the session's (validate-inputs.ts), so that names and datatypes agree
 * @returns undefined for work that can only run by itself
 */
export function computeBatchKey(
  { session, inputs }: ExecutionRequest,
  padding: RequestPadding | undefined,
): string | undefined {
  // With a fixed or no first dimension there is no batch.
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

/** The length of a run of works that share a key. */
export function computePaddedLength(paddings: readonly RequestPadding[]): number | undefined {
  const [first] = paddings;
  if (first === undefined) return undefined;
  const longest = Math.max(...paddings.map(({ length }) => length));
  return findBucketLength(first, longest) ?? longest;
}

/** @param works of one batch key, at least one */
export function mergeInputs(
  works: readonly ExecutionRequest[],
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
  const merged = (works[0]?.session.inputs ?? []).map((spec) => {
    const parts = works.flatMap((work) => work.inputs[spec.name] ?? []);
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

/** Copies block by block of the padded dimension, each followed by its padding. */
function copyPadded(
  source: Uint8Array,
  { shape, datatype }: Tensor & { readonly datatype: NumericDatatype },
  target: Uint8Array,
  to: readonly number[],
  { axis, value }: PaddingRule,
): void {
  const inner = product(shape.slice(axis + 1));
  const ownBytes = (shape[axis] ?? 0) * inner * typedArrays[datatype].BYTES_PER_ELEMENT;
  const filling = createFilledBytes(
    datatype,
    ((to[axis] ?? 0) - (shape[axis] ?? 0)) * inner,
    value,
  );
  const fullBytes = ownBytes + filling.byteLength;
  const blocks = product(shape.slice(0, axis));
  for (let block = 0; block < blocks; block++) {
    target.set(source.subarray(block * ownBytes, (block + 1) * ownBytes), block * fullBytes);
    target.set(filling, block * fullBytes + ownBytes);
  }
}

/** @param value 0 for those that are bit patterns (padding.ts) */
function createFilledBytes(datatype: NumericDatatype, count: number, value: number): Uint8Array {
  const elements = new typedArrays[datatype](count);
  if (elements instanceof BigInt64Array || elements instanceof BigUint64Array)
    elements.fill(BigInt(Math.trunc(value)));
  else elements.fill(value);
  return byteView(elements);
}

export const product = (dimensions: readonly number[]) =>
  dimensions.reduce((result, dimension) => result * dimension, 1);
