// Snapshot file format: magic, header, chunks of pages.
//
//   "ETSNAP" | uint16 format | uint32 header bytes | header (JSON, UTF-8) | chunks in the order of the header
//
// Integers are little-endian. A reference to a snapshot contains size and SHA-256 of its head, which is everything before
// the chunks. The header contains the SHA-256 of every chunk. A reader can therefore verify every byte before use, and
// holds at most one chunk in memory.

import * as z from "zod";
import { concatBytes } from "../../core/bytes.ts";
import { sha256Hex } from "../../core/hash.ts";
import { DATATYPES } from "../../core/tensor.ts";
import { runtimeErrors } from "../errors.ts";
import { PAGE_BYTES } from "./engine.ts";
import type { WasmSessionHandle } from "./open-session.ts";

/** Increase it when the layout changes, or the preparation of a memory before its snapshot. */
export const SNAPSHOT_FORMAT = 2;
const MAGIC = new TextEncoder().encode("ETSNAP");
export const PREFIX_BYTES = MAGIC.byteLength + 2 + 4;
/** Size of a chunk: 1 MiB, which a reader holds in memory. */
const CHUNK_PAGES = 16;

/** Engine, model and options of a snapshot; a reader with others rejects it. */
export interface SnapshotBinding {
  /** SHA-256 of the full engine, which identifies the version of onnxruntime-web and all build options. */
  readonly engine: string;
  /** SHA-256 of the graph. */
  readonly model: string;
  /** Session options (`SESSION_OPTIONS_FINGERPRINT`). */
  readonly choices: string;
}

/** An idle memory with an open session. */
export interface Snapshot {
  readonly binding: SnapshotBinding;
  readonly session: WasmSessionHandle;
  readonly stackPointer: number;
  /** Size of the memory in pages of 64 KiB. */
  readonly pageCount: number;
  /** Pages with at least one nonzero byte, in ascending order. */
  readonly pages: readonly { readonly index: number; readonly bytes: Uint8Array }[];
}

const pointerSchema = z.int().min(0).max(0xffff_ffff);
const sessionValueSchema = z.strictObject({
  spec: z.strictObject({
    name: z.string(),
    datatype: z.enum(DATATYPES),
    shape: z.array(z.int().min(-1)),
  }),
  namePointer: pointerSchema,
});
const chunkSchema = z.strictObject({
  pages: z.array(z.int().min(0)).min(1).max(CHUNK_PAGES),
  bytes: z.int().min(1),
  sha256: z.string(),
});
const headerSchema = z.strictObject({
  binding: z.strictObject({ engine: z.string(), model: z.string(), choices: z.string() }),
  session: z.strictObject({
    handle: pointerSchema,
    inputs: z.array(sessionValueSchema),
    outputs: z.array(sessionValueSchema),
  }),
  stackPointer: pointerSchema,
  pageCount: z.int().min(1).max(65_536),
  /** Encoding of every chunk; `deflate` is raw DEFLATE (RFC 1951). */
  encoding: z.enum(["none", "deflate"]),
  chunks: z.array(chunkSchema),
});
export type SnapshotHeader = z.output<typeof headerSchema>;

/** Size and SHA-256 of everything before the chunks. */
export interface SnapshotHeadRef {
  readonly size: number;
  readonly sha256: string;
}

export interface EncodedSnapshot {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly head: SnapshotHeadRef;
}

/** @param deflate compresses a chunk to raw DEFLATE; without it, chunks stay uncompressed */
export async function encodeSnapshot(
  { pages, ...rest }: Snapshot,
  deflate?: (chunk: Uint8Array) => Uint8Array | Promise<Uint8Array>,
): Promise<EncodedSnapshot> {
  const chunks: { pages: number[]; bytes: Uint8Array }[] = [];
  for (let first = 0; first < pages.length; first += CHUNK_PAGES) {
    const members = pages.slice(first, first + CHUNK_PAGES);
    const joined = concatBytes(members.map(({ bytes }) => bytes));
    chunks.push({
      pages: members.map(({ index }) => index),
      bytes: (await deflate?.(joined)) ?? joined,
    });
  }
  const header: SnapshotHeader = headerSchema.parse({
    ...rest,
    encoding: deflate === undefined ? "none" : "deflate",
    chunks: await Promise.all(
      chunks.map(async ({ pages: indices, bytes }) => ({
        pages: indices,
        bytes: bytes.byteLength,
        sha256: await sha256Hex(bytes),
      })),
    ),
  });
  const json = new TextEncoder().encode(JSON.stringify(header));
  const prefix = new Uint8Array(PREFIX_BYTES);
  prefix.set(MAGIC);
  const view = new DataView(prefix.buffer);
  view.setUint16(MAGIC.byteLength, SNAPSHOT_FORMAT, true);
  view.setUint32(MAGIC.byteLength + 2, json.byteLength, true);
  const head = concatBytes([prefix, json]);
  return {
    bytes: concatBytes([head, ...chunks.map(({ bytes }) => bytes)]),
    head: { size: head.byteLength, sha256: await sha256Hex(head) },
  };
}

/**
 * @param head the bytes before the chunks, with a verified digest
 * @throws snapshot_refused, with the reason: truncated, no_snapshot, other_format, bad_header, other_engine, other_model, other_choices
 */
export function parseSnapshotHead(head: Uint8Array, expected: SnapshotBinding): SnapshotHeader {
  if (head.byteLength < PREFIX_BYTES) throw runtimeErrors.snapshotRefused("truncated");
  if (!MAGIC.every((byte, index) => head[index] === byte))
    throw runtimeErrors.snapshotRefused("no_snapshot");
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  if (view.getUint16(MAGIC.byteLength, true) !== SNAPSHOT_FORMAT)
    throw runtimeErrors.snapshotRefused("other_format");
  if (view.getUint32(MAGIC.byteLength + 2, true) !== head.byteLength - PREFIX_BYTES)
    throw runtimeErrors.snapshotRefused("bad_header");
  const header = parseHeaderJson(head.subarray(PREFIX_BYTES));
  if (header.binding.engine !== expected.engine)
    throw runtimeErrors.snapshotRefused("other_engine");
  if (header.binding.model !== expected.model) throw runtimeErrors.snapshotRefused("other_model");
  if (header.binding.choices !== expected.choices)
    throw runtimeErrors.snapshotRefused("other_choices");
  const indices = header.chunks.flatMap(({ pages }) => pages);
  const isAscending = indices.every(
    (index, position) => index < header.pageCount && index > (indices[position - 1] ?? -1),
  );
  if (!isAscending) throw runtimeErrors.snapshotRefused("bad_header");
  return header;
}

function parseHeaderJson(bytes: Uint8Array): SnapshotHeader {
  try {
    return headerSchema.parse(JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)));
  } catch {
    throw runtimeErrors.snapshotRefused("bad_header");
  }
}

/**
 * Decodes an uncompressed snapshot, the inverse of `encodeSnapshot`. Pages are views of `bytes`.
 * @throws snapshot_refused
 */
export function decodeSnapshot(
  bytes: Uint8Array,
  headSize: number,
  expected: SnapshotBinding,
): Snapshot {
  const { encoding, chunks, ...rest } = parseSnapshotHead(bytes.subarray(0, headSize), expected);
  if (encoding !== "none") throw runtimeErrors.snapshotRefused("other_format");
  const indices = chunks.flatMap(({ pages }) => pages);
  return {
    ...rest,
    pages: indices.map((index, position) => ({
      index,
      bytes: bytes.subarray(
        headSize + position * PAGE_BYTES,
        headSize + (position + 1) * PAGE_BYTES,
      ),
    })),
  };
}
