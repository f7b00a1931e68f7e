// Reads an isolate's log for functions that its engine was cut of and that were called after all.

import { readFile } from "node:fs/promises";
import * as z from "zod";
import type { StrippedFunction } from "../../runtime/wasm/traps.ts";
import { parseWasmModule } from "./wasm-module.ts";

/** As serving/edge-sessions.ts writes it; `engine` is the SHA-256 of the full engine. */
const trapRecordSchema = z.object({
  event: z.literal("engine_trap"),
  engine: z.string(),
  function: z.int().optional(),
  slot: z.int().optional(),
});

export interface TrapLog {
  readonly calledFunctions: readonly StrippedFunction[];
  /** Lines about other engines, whose numbers mean other functions. */
  readonly otherEngineCount: number;
}

/** @param text JSON lines, among lines of any other kind; each may begin with a time or a name @param engine SHA-256 of the full engine */
export function parseTrapLog(text: string, engine: string): TrapLog {
  const records = text.split("\n").flatMap((line) => {
    try {
      return [trapRecordSchema.parse(JSON.parse(line.slice(Math.max(line.indexOf("{"), 0))))];
    } catch {
      return [];
    }
  });
  const own = records.filter((record) => record.engine === engine);
  const cut = own.flatMap(({ function: index, slot }): StrippedFunction[] =>
    index !== undefined ? [{ function: index }] : slot !== undefined ? [{ slot }] : [],
  );
  return { calledFunctions: cut, otherEngineCount: records.length - own.length };
}

/** Numbers of the functions, those in table slots looked up. @param enginePath of the full engine */
export async function resolveFunctionIndices(
  cut: readonly StrippedFunction[],
  enginePath: string,
): Promise<number[]> {
  if (cut.length === 0) return [];
  const { tableSlots: slots } = parseWasmModule(await readFile(enginePath));
  return [
    ...new Set(
      cut.flatMap((one) => ("function" in one ? [one.function] : (slots[one.slot] ?? []))),
    ),
  ];
}
