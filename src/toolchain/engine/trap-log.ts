// Trap log: reads from an isolate's log which stripped functions were called after all.

import { readFile } from "node:fs/promises";
import * as z from "zod";
import type { StrippedFunction } from "../../runtime/wasm/traps.ts";
import { parseWasmModule } from "./wasm-module.ts";

/** Log record that serving/edge-sessions.ts writes; `engine` is the SHA-256 of the full engine. */
const trapRecordSchema = z.object({
  event: z.literal("engine_trap"),
  engine: z.string(),
  function: z.int().optional(),
  slot: z.int().optional(),
});

export interface TrapLog {
  readonly calledFunctions: readonly StrippedFunction[];
  /** Number of records of other engines, whose function indices mean other functions. */
  readonly otherEngineCount: number;
}

/**
 * @param text JSON lines among lines of any other kind; each may begin with a time or a name
 * @param engine SHA-256 of the full engine
 */
export function parseTrapLog(text: string, engine: string): TrapLog {
  const records = text.split("\n").flatMap((line) => {
    try {
      return [trapRecordSchema.parse(JSON.parse(line.slice(Math.max(line.indexOf("{"), 0))))];
    } catch {
      return [];
    }
  });
  const ownRecords = records.filter((record) => record.engine === engine);
  const calledFunctions = ownRecords.flatMap(({ function: index, slot }): StrippedFunction[] =>
    index !== undefined ? [{ function: index }] : slot !== undefined ? [{ slot }] : [],
  );
  return { calledFunctions, otherEngineCount: records.length - ownRecords.length };
}

/** Returns the indices of functions, resolving table slots. @param enginePath engine.wasm of the full engine */
export async function resolveFunctionIndices(
  functions: readonly StrippedFunction[],
  enginePath: string,
): Promise<number[]> {
  if (functions.length === 0) return [];
  const { tableSlots } = parseWasmModule(await readFile(enginePath));
  const indices = functions.flatMap((stripped) =>
    "function" in stripped ? [stripped.function] : (tableSlots[stripped.slot] ?? []),
  );
  return [...new Set(indices)];
}
