// Takes a snapshot: the memory of an engine instance with a session open and warmed up in it, made so that the same
// engine and model give the same bytes each time.

import { runtimeErrors } from "../errors.ts";
import { coreErrors } from "../../core/common-errors.ts";
import { byteView } from "../../core/bytes.ts";
import { EdgeTierError } from "../../core/errors.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import { type Engine, type EngineModule, PAGE_BYTES, startEngine } from "./engine.ts";
import { openSession, SESSION_OPTIONS_FINGERPRINT } from "./open-session.ts";
import { createWasmSession } from "./wasm-session.ts";
import { type Snapshot } from "./snapshot-format.ts";

/** Pages above what was needed, first and for each further try. */
const SPARE_PAGE_STEPS = [2, 8, 32, 128] as const;

/**
 * The image is taken at rest, when the engine's globals are as they are after its start; so nothing but memory, and the
 * few numbers of the OpenSession, has to come back. Free memory is overwritten by zeros: model bytes, and what earlier
 * runs left behind, do not get into it.
 * @param module the full engine
 * @param model its SHA-256 is `modelSha256`
 * @param warmUp inputs of every shape that the session should be ready for, in order
 * @throws session_failed; not_deterministic for a model that answers one input in two ways: its random state would be frozen
 */
export async function takeSnapshot(
  module: EngineModule,
  model: Uint8Array,
  modelSha256: string,
  warmUp: readonly NamedTensors[],
): Promise<Snapshot> {
  const open = async (pages?: number) => {
    const engine = await startEngine(module, {
      now: () => 0,
      ...(pages === undefined ? {} : { initialPages: pages, maximumPages: pages }),
    });
    const opened = openSession(engine, model);
    const session = createWasmSession(engine, opened);
    for (const inputs of warmUp) {
      const [one, other] = [await session.run(inputs), await session.run(inputs)];
      if (!areIdenticalTensors(one, other)) throw runtimeErrors.notDeterministic();
    }
    return { engine, opened };
  };
  // The first time tells how many pages it takes. The second time the memory cannot grow beyond them, so that it is
  // no larger than it must be, and allocating until nothing is left reaches every free block.
  const needed = findLastUsedPage((await open()).engine.memory) + 1;
  for (const [attempt, spare] of SPARE_PAGE_STEPS.entries()) {
    try {
      const { engine, opened } = await open(needed + spare);
      scrubFreeMemory(engine);
      return {
        binding: {
          engine: module.source,
          model: modelSha256,
          choices: SESSION_OPTIONS_FINGERPRINT,
        },
        session: opened,
        stackPointer: engine.ort.stackSave(),
        pageCount: engine.memory.buffer.byteLength / PAGE_BYTES,
        pages: copyNonZeroPages(engine.memory),
      };
    } catch (error) {
      const tooSmall =
        error instanceof EdgeTierError &&
        error.code === "session_failed" &&
        attempt < SPARE_PAGE_STEPS.length - 1;
      if (!tooSmall) throw error;
    }
  }
  throw coreErrors.sessionFailed("the memory of the second pass is too small"); // not reached: the last attempt throws
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

const pageCountOf = (memory: WebAssembly.Memory): number => memory.buffer.byteLength / PAGE_BYTES;

function findLastUsedPage(memory: WebAssembly.Memory): number {
  let page = pageCountOf(memory) - 1;
  while (page > 0 && isZeroPage(memory, page)) page--;
  return page;
}

function copyNonZeroPages(memory: WebAssembly.Memory): Snapshot["pages"] {
  return Array.from({ length: pageCountOf(memory) }, (_, index) => index)
    .filter((index) => !isZeroPage(memory, index))
    .map((index) => ({
      index,
      bytes: new Uint8Array(memory.buffer.slice(index * PAGE_BYTES, (index + 1) * PAGE_BYTES)),
    }));
}

function isZeroPage(memory: WebAssembly.Memory, page: number): boolean {
  const words = new BigUint64Array(memory.buffer, page * PAGE_BYTES, PAGE_BYTES / 8);
  for (const word of words) if (word !== 0n) return false;
  return true;
}

/** Bit by bit: a NaN equals itself. */
export function areIdenticalTensors(one: NamedTensors, other: NamedTensors): boolean {
  return Object.entries(one).every(([name, tensor]) => {
    const twin = other[name];
    if (
      twin === undefined ||
      tensor.datatype === "BYTES" ||
      twin.datatype === "BYTES" ||
      tensor.data.byteLength !== twin.data.byteLength
    )
      return false;
    const right = byteView(twin.data);
    return byteView(tensor.data).every((byte, index) => byte === right[index]);
  });
}
