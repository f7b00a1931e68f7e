// What ends a run from inside the engine: traps, C++ exceptions that nobody caught, and calls of functions that the
// engine was cut of.

import { runtimeErrors } from "../errors.ts";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";

/** Exports of a cut engine (`build/engine/cut.ts` makes them). */
export const STRIPPED_FUNCTION_EXPORT = "cut function";
export const LATEST_SLOT_EXPORT = "latest slot";

/** A function that the engine was cut of: by its number in the full engine, or by its slot in the full engine's table. */
export type StrippedFunction = { readonly function: number } | { readonly slot: number };

/** Reads, after a trap, which cut function was called; undefined where none was. */
export type ReadStrippedFunction = () => StrippedFunction | undefined;

/**
 * Prepares a cut engine's exports for the glue, which also calls through the table: an empty slot is noted there, too.
 * The exports of a full engine are left as they are.
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
  const noting = {
    get(slot: number): unknown {
      const found: unknown = table.get(slot);
      if (found === null) latestSlot.value = slot;
      return found;
    },
  };
  return {
    exports: { ...exports, [tableName]: noting as WebAssembly.Table },
    readStrippedFunction() {
      if (called.value >= 0) return { function: called.value };
      const slot: number = latestSlot.value;
      return slot > 0 && table.get(slot) === null ? { slot } : undefined; // slot 0 is the null pointer, in the full engine, too
    },
  };
}

/**
 * Runs a call into the engine.
 * @throws function_cut or engine_trap where the call did not come back: the instance's memory may then be in any state
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

/** Whether the instance that threw this must never run again. */
export const isEngineTrap = (error: unknown): boolean =>
  error instanceof EdgeTierError && (error.code === "engine_trap" || error.code === "function_cut");
