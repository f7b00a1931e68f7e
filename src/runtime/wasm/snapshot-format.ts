// The file form of a snapshot: magic, header, pages; nothing in it is believed before its digest has been compared.
//
//   "ETSNAP" | uint16 format | uint32 header bytes | header (JSON, UTF-8) | pages in the order of the header
//
// Integers are little-endian. The artifact's own SHA-256, checked by the model store, covers every byte.

import { z } from "zod";
import { errors } from "../../core/errors.ts";
import { DATATYPES } from "../../core/tensor.ts";
import type { OpenSession } from "./open-session.ts";

export const PAGE_BYTES = 65_536;

/** Raise it when the layout, or what is done to a memory before its image is taken, changes. */
const FORMAT = 1;
const MAGIC = new TextEncoder().encode("ETSNAP");
const PREFIX_BYTES = MAGIC.byteLength + 2 + 4;

/** What a snapshot belongs to; anything else refuses it. */
export interface SnapshotBinding {
  /** SHA-256 of engine.wasm: it stands for onnxruntime-web's version and every choice made when the engine was built. */
  readonly engine: string;
  /** SHA-256 of the graph. */
  readonly model: string;
}

export interface Snapshot {
  readonly binding: SnapshotBinding;
  readonly session: OpenSession;
  readonly stackPointer: number;
  /** Of the memory, in pages of 64 KiB. */
  readonly pageCount: number;
  /** The pages that are not all zeros. */
  readonly pages: readonly { readonly index: number; readonly bytes: Uint8Array }[];
}

const pointer = z.int().min(0).max(0xffff_ffff);
const port = z.strictObject({
  spec: z.strictObject({ name: z.string(), datatype: z.enum(DATATYPES), shape: z.array(z.int().min(-1)) }),
  namePointer: pointer,
});
const headerSchema = z.strictObject({
  binding: z.strictObject({ engine: z.string(), model: z.string() }),
  session: z.strictObject({ handle: pointer, inputs: z.array(port), outputs: z.array(port) }),
  stackPointer: pointer,
  pageCount: z.int().min(1).max(65_536),
  pages: z.array(z.int().min(0)),
});

export function encodeSnapshot({ pages, ...rest }: Snapshot): Uint8Array<ArrayBuffer> {
  const header = new TextEncoder().encode(JSON.stringify({ ...rest, pages: pages.map((page) => page.index) }));
  const bytes = new Uint8Array(PREFIX_BYTES + header.byteLength + pages.length * PAGE_BYTES);
  const view = new DataView(bytes.buffer);
  bytes.set(MAGIC);
  view.setUint16(MAGIC.byteLength, FORMAT, true);
  view.setUint32(MAGIC.byteLength + 2, header.byteLength, true);
  bytes.set(header, PREFIX_BYTES);
  pages.forEach((page, position) => bytes.set(page.bytes, PREFIX_BYTES + header.byteLength + position * PAGE_BYTES));
  return bytes;
}

/**
 * Pages of the result are views of `bytes`.
 * @throws snapshot_refused, with the reason: no_snapshot, other_format, truncated, bad_header, other_engine, other_model
 */
export function decodeSnapshot(bytes: Uint8Array, expected: SnapshotBinding): Snapshot {
  if (bytes.byteLength < PREFIX_BYTES) throw errors.snapshotRefused("truncated");
  if (!MAGIC.every((byte, index) => bytes[index] === byte)) throw errors.snapshotRefused("no_snapshot");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint16(MAGIC.byteLength, true) !== FORMAT) throw errors.snapshotRefused("other_format");
  const pagesAt = PREFIX_BYTES + view.getUint32(MAGIC.byteLength + 2, true);
  if (pagesAt > bytes.byteLength) throw errors.snapshotRefused("truncated");

  const { pages, ...header } = parseHeader(bytes.subarray(PREFIX_BYTES, pagesAt));
  if (header.binding.engine !== expected.engine) throw errors.snapshotRefused("other_engine");
  if (header.binding.model !== expected.model) throw errors.snapshotRefused("other_model");
  if (bytes.byteLength !== pagesAt + pages.length * PAGE_BYTES) throw errors.snapshotRefused("truncated");
  const ascending = pages.every((index, position) => index < header.pageCount && index > (pages[position - 1] ?? -1));
  if (!ascending) throw errors.snapshotRefused("bad_header");
  return {
    ...header,
    pages: pages.map((index, position) => ({ index, bytes: bytes.subarray(pagesAt + position * PAGE_BYTES, pagesAt + (position + 1) * PAGE_BYTES) })),
  };
}

function parseHeader(bytes: Uint8Array): z.output<typeof headerSchema> {
  try {
    return headerSchema.parse(JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)));
  } catch {
    throw errors.snapshotRefused("bad_header");
  }
}
