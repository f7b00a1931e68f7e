// Takes a snapshot: the memory of an engine instance with an open, warmed-up session. The same engine and model always
// give the same bytes.

import { byteView } from "../../core/bytes.ts";
import { coreErrors } from "../../core/common-errors.ts";
import { EdgeTierError } from "../../core/errors.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import { runtimeErrors } from "../errors.ts";
import { type Engine, type EngineModule, PAGE_BYTES, startEngine } from "./engine.ts";
import { openSession, SESSION_OPTIONS_FINGERPRINT } from "./open-session.ts";
import { type Snapshot } from "./snapshot-format.ts";
import { createWasmSession } from "./wasm-session.ts";

/** Spare pages above the required size, one value per attempt. */
const SPARE_PAGE_STEPS = [2, 8, 32, 128] as const;

/**
 * Takes a snapshot of an idle instance, whose globals have their initial values. A restore therefore only needs the
 * memory and the numbers of the session handle. Free memory is overwritten by zeros, so that the snapshot contains no
 * model bytes and no data of earlier runs.
 * @param module the full engine
 * @param model model bytes, whose SHA-256 is `modelSha256`
 * @param warmUp inputs of every shape that the session should be ready for, in order
 * @throws session_failed; not_deterministic if outputs differ for equal inputs, because the random state would freeze
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
      const [first, second] = [await session.run(inputs), await session.run(inputs)];
      if (!areIdenticalTensors(first, second)) throw runtimeErrors.notDeterministic();
    }
    return { engine, opened };
  };
  // The first pass measures the required pages. In the second pass the memory cannot grow beyond them. It stays as small
  // as possible, and allocations until exhaustion reach every free block.
  const requiredPages = findLastUsedPage((await open()).engine.memory) + 1;
  for (const [attempt, spare] of SPARE_PAGE_STEPS.entries()) {
    try {
      const { engine, opened } = await open(requiredPages + spare);
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
      const isMemoryTooSmall =
        error instanceof EdgeTierError &&
        error.code === "session_failed" &&
        attempt < SPARE_PAGE_STEPS.length - 1;
      if (!isMemoryTooSmall) throw error;
    }
  }
  // Unreachable, because the last attempt throws.
  throw coreErrors.sessionFailed("the memory of the second pass is too small");
}

const LARGEST_BLOCK_BYTES = 2 ** 24;
const SMALLEST_BLOCK_BYTES = 16;

/** Allocates all free memory, from large blocks to small ones, fills it with zeros and frees it. */
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

/** Compares numeric tensors bitwise, so that a NaN equals itself. */
export function areIdenticalTensors(left: NamedTensors, right: NamedTensors): boolean {
  return Object.entries(left).every(([name, tensor]) => {
    const other = right[name];
    if (
      other === undefined ||
      tensor.datatype === "BYTES" ||
      other.datatype === "BYTES" ||
      tensor.data.byteLength !== other.data.byteLength
    )
      return false;
    const otherBytes = byteView(other.data);
    return byteView(tensor.data).every((byte, index) => byte === otherBytes[index]);
  });
}
