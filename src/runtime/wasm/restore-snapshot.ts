// Restores a snapshot: a new engine instance continues from its memory, as if it had opened the model itself.

import { sha256Hex } from "../../core/hash.ts";
import { runtimeErrors } from "../errors.ts";
import type { Session } from "../runtime.ts";
import type { ByteSource } from "./byte-source.ts";
import {
  type Engine,
  type EngineModule,
  type EngineOptions,
  PAGE_BYTES,
  startEngine,
} from "./engine.ts";
import { type WasmSessionHandle, SESSION_OPTIONS_FINGERPRINT } from "./open-session.ts";
import { type SnapshotHeadRef, parseSnapshotHead, type SnapshotHeader } from "./snapshot-format.ts";
import { createWasmSession } from "./wasm-session.ts";

/** Options of the instance. Its initial memory is at least as large as the snapshot's. */
export type InstanceOptions = Pick<EngineOptions, "initialPages" | "maximumPages" | "now">;

/**
 * Restores a session. Every chunk is verified and then unpacked directly into the instance's memory. Without compression,
 * restoring does no I/O of its own and so may run at module scope.
 * @param head reference to the snapshot's head, from a manifest or a deployment
 * @param modelSha256 digest of the session's graph
 * @throws snapshot_refused with the reason; engine_trap; the errors of `source`
 */
export async function restoreSnapshot(
  module: EngineModule,
  source: ByteSource,
  head: SnapshotHeadRef,
  modelSha256: string,
  options?: InstanceOptions,
): Promise<Session> {
  const { engine, opened } = await restoreEngineInstance(
    module,
    source,
    head,
    modelSha256,
    options,
  );
  return createWasmSession(engine, opened);
}

/** Restores a snapshot, and returns the engine instance with its open session. */
export async function restoreEngineInstance(
  module: EngineModule,
  source: ByteSource,
  head: SnapshotHeadRef,
  modelSha256: string,
  options: InstanceOptions = {},
): Promise<{ engine: Engine; opened: WasmSessionHandle }> {
  try {
    const bytes = await readVerifiedBytes(source, head.size, head.sha256);
    const header = parseSnapshotHead(bytes, {
      engine: module.source,
      model: modelSha256,
      choices: SESSION_OPTIONS_FINGERPRINT,
    });
    const engine = await startEngine(module, {
      ...options,
      initialPages: Math.max(header.pageCount, options.initialPages ?? 0),
      initializesRuntime: false,
    });
    // A full engine has initialized its constants in other pages; a cut engine starts with zeros only.
    if (module.kind === "full") zeroOtherPages(engine.memory, header);
    for (const { pages, bytes: size, sha256 } of header.chunks) {
      const stored = await readVerifiedBytes(source, size, sha256);
      if (header.encoding === "none") writePages(engine.memory, pages, 0, stored);
      else await inflatePages(engine.memory, pages, stored);
    }
    engine.ort.stackRestore(header.stackPointer);
    return { engine, opened: header.session };
  } catch (error) {
    await source.cancel();
    throw error;
  }
}

async function readVerifiedBytes(
  source: ByteSource,
  size: number,
  sha256: string,
): Promise<Uint8Array> {
  const bytes = await source.read(size);
  if (bytes.byteLength < size) throw runtimeErrors.snapshotRefused("truncated");
  if ((await sha256Hex(bytes)) !== sha256) throw runtimeErrors.snapshotRefused("corrupt");
  return bytes;
}

function zeroOtherPages(memory: WebAssembly.Memory, { chunks, pageCount }: SnapshotHeader): void {
  const restored = new Set(chunks.flatMap(({ pages }) => pages));
  const bytes = new Uint8Array(memory.buffer);
  for (let page = 0; page < pageCount; page++)
    if (!restored.has(page)) bytes.fill(0, page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
}

/** @param offset position of `bytes` in the concatenated pages of the chunk */
function writePages(
  memory: WebAssembly.Memory,
  pages: readonly number[],
  offset: number,
  bytes: Uint8Array,
): void {
  const target = new Uint8Array(memory.buffer);
  for (let done = 0; done < bytes.byteLength;) {
    const at = offset + done;
    const page = pages[Math.floor(at / PAGE_BYTES)];
    if (page === undefined) throw runtimeErrors.snapshotRefused("bad_header");
    const part = bytes.subarray(done, done + PAGE_BYTES - (at % PAGE_BYTES));
    target.set(part, page * PAGE_BYTES + (at % PAGE_BYTES));
    done += part.byteLength;
  }
}

async function inflatePages(
  memory: WebAssembly.Memory,
  pages: readonly number[],
  stored: Uint8Array,
): Promise<void> {
  const inflated = new Blob([stored as Uint8Array<ArrayBuffer>])
    .stream()
    .pipeThrough(new DecompressionStream("deflate-raw"));
  let offset = 0;
  for await (const bytes of inflated) {
    writePages(memory, pages, offset, bytes);
    offset += bytes.byteLength;
  }
  if (offset !== pages.length * PAGE_BYTES) throw runtimeErrors.snapshotRefused("truncated");
}
