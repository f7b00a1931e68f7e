// Engine traps: converts WebAssembly traps, uncaught C++ exceptions, and calls of cut functions to errors.

import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import { runtimeErrors } from "../errors.ts";

/** Exports that the engine cutter of the toolchain adds to a cut engine. */
export const STRIPPED_FUNCTION_EXPORT = "cut function";
export const LATEST_SLOT_EXPORT = "latest slot";

/** A cut function, by its number in the full engine, or by its slot in the full engine's table. */
export type StrippedFunction = { readonly function: number } | { readonly slot: number };

/** Reads the cut function whose call caused a trap; undefined for other traps. */
export type ReadStrippedFunction = () => StrippedFunction | undefined;

/**
 * Wraps a cut engine's exports for the glue. The glue also calls through the function table, so the wrapped table records
 * accesses to empty slots. Exports of a full engine stay unchanged.
 */
export function watchStrippedFunctions(exports: WebAssembly.Exports): {
  exports: WebAssembly.Exports;
  readStrippedFunction: ReadStrippedFunction;
} {
  const called = exports[STRIPPED_FUNCTION_EXPORT];
  const latestSlot = exports[LATEST_SLOT_EXPORT];
  const [tableName, table] =
    Object.entries(exports).find(([, value]) => value instanceof WebAssembly.Table) ?? [];
  const cut =
    called instanceof WebAssembly.Global &&
    latestSlot instanceof WebAssembly.Global &&
    table instanceof WebAssembly.Table &&
    tableName !== undefined;
  if (!cut) return { exports, readStrippedFunction: () => undefined };
  const recordingTable = {
    get(slot: number): unknown {
      const callee: unknown = table.get(slot);
      if (callee === null) latestSlot.value = slot;
      return callee;
    },
  };
  return {
    exports: { ...exports, [tableName]: recordingTable as WebAssembly.Table },
    readStrippedFunction() {
      if (called.value >= 0) return { function: called.value };
      const slot: number = latestSlot.value;
      // Slot 0 is the null pointer, which is also empty in the full engine.
      return slot > 0 && table.get(slot) === null ? { slot } : undefined;
    },
  };
}

/**
 * Runs a call into the engine.
 * @throws function_cut or engine_trap if the call trapped; the instance's memory is then in an undefined state
 */
export function callEngine<Result>(
  { readStrippedFunction }: { readonly readStrippedFunction: ReadStrippedFunction },
  action: string,
  call: () => Result,
): Result {
  try {
    return call();
  } catch (error) {
    if (error instanceof EdgeTierError) throw error;
    const cut = readStrippedFunction();
    throw cut === undefined
      ? runtimeErrors.engineTrap(action, reasonOf(error), error)
      : runtimeErrors.functionCut(cut, error);
  }
}

/** Returns whether the instance that threw the error must never run again. */
export const isEngineTrap = (error: unknown): boolean =>
  error instanceof EdgeTierError && (error.code === "engine_trap" || error.code === "function_cut");
