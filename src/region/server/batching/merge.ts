// Which works may share a run, and how: inputs one behind the other along their first dimension, outputs cut back into rows.

import { bytesOf } from "../../../core/bytes.ts";
import { type NamedTensors, type Tensor, typedArrays } from "../../../core/tensor.ts";
import type { Session } from "../../../runtime/runtime.ts";
import type { Padding } from "../../../tasks/task.ts";
import type { Work } from "../executor.ts";
import type { BufferPool } from "./buffer-pool.ts";

export interface Merged {
  readonly inputs: NamedTensors;
  /** To be called when the run is over: the inputs' buffers are used again. */
  release(): void;
}

/** The first dimension of its inputs; 1 where they have none in common. */
export function rowsOf({ inputs }: Work): number {
  const rows = Object.values(inputs).map((tensor) => tensor.shape[0]);
  return rows[0] !== undefined && rows[0] > 0 && rows.every((one) => one === rows[0]) ? rows[0] : 1;
}

/**
 * The same for works whose inputs can be merged: their dimensions agree, but for the first, and for those that are padded.
 * @param work whose inputs fit the session's (check-inputs.ts), so that names and datatypes agree
 * @returns undefined for work that can only run by itself
 */
export function batchKeyOf({ session, inputs, padding }: Work): string | undefined {
  // With a fixed or no first dimension there is no batch.
  if (session.inputs.length === 0 || session.inputs.some((spec) => spec.shape[0] !== -1)) return undefined;
  const rows = inputs[session.inputs[0]?.name ?? ""]?.shape[0];
  if (rows === 0) return undefined;
  const dimensions = session.inputs.map(({ name }) => {
    const tensor = inputs[name];
    if (tensor === undefined || tensor.shape[0] !== rows) return undefined;
    return tensor.shape.slice(1).map((dimension, index) => (isPadded(session, tensor, padding, index + 1) ? `<=${bucketOf(dimension, padding) ?? ""}` : dimension));
  });
  return dimensions.includes(undefined) ? undefined : dimensions.join(";");
}

/** Only where no output could come out wider for it: an answer must not show who shared the run. */
function isPadded(session: Session, tensor: Tensor, padding: Padding | undefined, axis: number): padding is Padding {
  return padding?.axis === axis && tensor.datatype !== "BYTES" && session.outputs.every((spec) => !spec.shape.includes(-1, 1));
}

/** The width that a batch of this one gets; undefined where there are no buckets: its widest member's. */
function bucketOf(width: number, padding: Padding): number | undefined {
  return padding.buckets === undefined ? undefined : (padding.buckets.find((bucket) => bucket >= width) ?? width);
}

/** @param works of one batch key, at least one */
export function merge(works: readonly Work[], pool: BufferPool): Merged {
  const buffers: ArrayBuffer[] = [];
  const allocate = (byteLength: number) => {
    const buffer = pool.take(byteLength);
    buffers.push(buffer);
    return buffer;
  };
  const [first] = works;
  const names = Object.keys(first?.inputs ?? {});
  const merged = names.map((name) => {
    const parts = works.flatMap((work) => work.inputs[name] ?? []);
    const padding = first !== undefined && parts[0] !== undefined && isPadded(first.session, parts[0], first.padding, first.padding?.axis ?? 0) ? first.padding : undefined;
    return [name, concatenate(parts, padding, allocate)] as const;
  });
  return { inputs: Object.fromEntries(merged), release: () => buffers.splice(0).forEach((buffer) => pool.giveBack(buffer)) };
}

function concatenate(parts: readonly Tensor[], padding: Padding | undefined, allocate: (byteLength: number) => ArrayBuffer): Tensor {
  const [first] = parts;
  if (first === undefined) throw new RangeError("nothing to merge");
  const rows = parts.reduce((sum, part) => sum + (part.shape[0] ?? 0), 0);
  const shape = [rows, ...first.shape.slice(1)];
  if (first.datatype === "BYTES") return { datatype: "BYTES", shape, data: parts.flatMap((part) => (part.datatype === "BYTES" ? part.data : [])) };

  if (padding !== undefined && padding.axis < shape.length) shape[padding.axis] = widthOf(parts, padding);
  const ArrayType = typedArrays[first.datatype];
  const buffer = allocate(product(shape) * ArrayType.BYTES_PER_ELEMENT);
  const target = new Uint8Array(buffer);
  let offset = 0;
  for (const part of parts) {
    if (part.datatype === "BYTES") continue;
    const source = bytesOf(part.data);
    if (padding === undefined || part.shape[padding.axis] === shape[padding.axis]) target.set(source, offset);
    else copyPadded(source, part.shape, target.subarray(offset), shape, padding, ArrayType);
    offset += (part.shape[0] ?? 0) * product(shape.slice(1)) * ArrayType.BYTES_PER_ELEMENT;
  }
  return { datatype: first.datatype, shape, data: new ArrayType(buffer) } as Tensor;
}

function widthOf(parts: readonly Tensor[], padding: Padding): number {
  const widest = Math.max(...parts.map((part) => part.shape[padding.axis] ?? 0));
  return bucketOf(widest, padding) ?? widest;
}

type NumericArrayType = (typeof typedArrays)[keyof typeof typedArrays];

/** Copies block by block of the padded dimension, each followed by its padding. */
function copyPadded(source: Uint8Array, from: readonly number[], target: Uint8Array, to: readonly number[], { axis, value }: Padding, ArrayType: NumericArrayType): void {
  const innerBytes = product(from.slice(axis + 1)) * ArrayType.BYTES_PER_ELEMENT;
  const ownBytes = (from[axis] ?? 0) * innerBytes;
  const fullBytes = (to[axis] ?? 0) * innerBytes;
  const elements = new ArrayType((fullBytes - ownBytes) / ArrayType.BYTES_PER_ELEMENT);
  if (elements instanceof BigInt64Array || elements instanceof BigUint64Array) elements.fill(BigInt(value));
  else elements.fill(value);
  const filling = new Uint8Array(elements.buffer);
  const blocks = product(from.slice(0, axis));
  for (let block = 0; block < blocks; block++) {
    target.set(source.subarray(block * ownBytes, (block + 1) * ownBytes), block * fullBytes);
    target.set(filling, block * fullBytes + ownBytes);
  }
}

/** The name and shape of an output that does not have a row for each of the batch's; undefined if all do. */
export function misfitOf(outputs: NamedTensors, rows: number): string | undefined {
  const found = Object.entries(outputs).find(([, tensor]) => tensor.shape[0] !== rows);
  return found === undefined ? undefined : `output ${found[0]} has shape [${found[1].shape.join(", ")}] for a batch of ${rows} rows`;
}

/** Each work's own rows of the outputs, as views: they are the run's own. */
export function split(outputs: NamedTensors, rowsOfEach: readonly number[]): NamedTensors[] {
  const entries = Object.entries(outputs);
  let start = 0;
  return rowsOfEach.map((rows) => {
    const end = start + rows;
    const own = entries.map(([name, tensor]) => [name, rowsOfTensor(tensor, start, end)] as const);
    start = end;
    return Object.fromEntries(own);
  });
}

function rowsOfTensor(tensor: Tensor, start: number, end: number): Tensor {
  const perRow = product(tensor.shape.slice(1));
  const shape = [end - start, ...tensor.shape.slice(1)];
  const data = tensor.datatype === "BYTES" ? tensor.data.slice(start * perRow, end * perRow) : tensor.data.subarray(start * perRow, end * perRow);
  return { datatype: tensor.datatype, shape, data } as Tensor;
}

const product = (dimensions: readonly number[]) => dimensions.reduce((result, dimension) => result * dimension, 1);
