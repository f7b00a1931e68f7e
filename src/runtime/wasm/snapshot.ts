// Snapshots: an engine instance's memory with a session open and warmed up, and a fresh instance that goes on from it.
//
// The image is taken at rest, when the engine's globals are as they are after its start; so nothing but memory, and the
// few numbers of the OpenSession, has to come back.

import type { NamedTensors } from "../../core/tensor.ts";
import type { Session } from "../runtime.ts";
import { type Engine, type EngineModule, startEngine } from "./engine.ts";
import { openSession } from "./open-session.ts";
import { createWasmSession } from "./session.ts";
import { PAGE_BYTES, type Snapshot, type SnapshotBinding } from "./snapshot-format.ts";

/**
 * Opens the model, runs the warm-up inputs, and takes the image, with free memory overwritten by zeros: model bytes, and
 * what earlier runs left behind, do not get into it.
 * @param warmUp inputs of every shape that the session should be ready for, in order
 * @throws session_failed
 */
export async function takeSnapshot(module: EngineModule, model: Uint8Array, warmUp: readonly NamedTensors[], binding: SnapshotBinding): Promise<Snapshot> {
  const open = async (maximumPages?: number) => {
    const engine = await startEngine(module, { now: () => 0, ...(maximumPages === undefined ? {} : { maximumPages }) });
    const opened = openSession(engine, model);
    const session = createWasmSession(engine, opened);
    for (const inputs of warmUp) await session.run(inputs);
    return { engine, opened };
  };
  // The first time tells how many pages it takes. The second time the memory cannot grow beyond them, so that
  // allocating until nothing is left reaches every free block.
  const { engine: measured } = await open();
  const { engine, opened } = await open(measured.memory.buffer.byteLength / PAGE_BYTES);
  scrubFreeMemory(engine);
  return { binding, session: opened, stackPointer: engine.ort.stackSave(), pageCount: engine.memory.buffer.byteLength / PAGE_BYTES, pages: nonZeroPages(engine.memory) };
}

/**
 * Does no I/O, so it may run at module scope. The caller has checked that the snapshot belongs to this engine and model.
 * @throws session_failed
 */
export async function restoreSession(module: EngineModule, snapshot: Snapshot): Promise<Session> {
  const engine = await startEngine(module, { initialPages: snapshot.pageCount, startRuntime: false });
  const bytes = new Uint8Array(engine.memory.buffer);
  const kept = new Map(snapshot.pages.map((page) => [page.index, page.bytes]));
  for (let index = 0; index < snapshot.pageCount; index++) {
    const page = kept.get(index);
    if (page !== undefined) bytes.set(page, index * PAGE_BYTES);
    else if (!isZero(engine.memory, index)) bytes.fill(0, index * PAGE_BYTES, (index + 1) * PAGE_BYTES);
  }
  engine.ort.stackRestore(snapshot.stackPointer);
  return createWasmSession(engine, snapshot.session);
}

const LARGEST_BLOCK_BYTES = 2 ** 24;
const SMALLEST_BLOCK_BYTES = 16;

/** Takes all free memory, from large blocks to small ones, fills it with zeros and gives it back. */
function scrubFreeMemory({ ort }: Engine): void {
  const blocks: number[] = [];
  for (let size = LARGEST_BLOCK_BYTES; size >= SMALLEST_BLOCK_BYTES; size /= 2) {
    for (let block = ort._malloc(size); block !== 0; block = ort._malloc(size)) {
      ort.HEAPU8.fill(0, block, block + size);
      blocks.push(block);
    }
  }
  for (const block of blocks) ort._free(block);
}

function nonZeroPages(memory: WebAssembly.Memory): Snapshot["pages"] {
  const count = memory.buffer.byteLength / PAGE_BYTES;
  return Array.from({ length: count }, (_, index) => index)
    .filter((index) => !isZero(memory, index))
    .map((index) => ({ index, bytes: new Uint8Array(memory.buffer.slice(index * PAGE_BYTES, (index + 1) * PAGE_BYTES)) }));
}

function isZero(memory: WebAssembly.Memory, page: number): boolean {
  return new BigUint64Array(memory.buffer, page * PAGE_BYTES, PAGE_BYTES / 8).every((word) => word === 0n);
}
