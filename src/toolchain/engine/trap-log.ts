// Reads an isolate's log for functions that its engine was cut of and that were called after all.

import { readFile } from "node:fs/promises";
import * as z from "zod";
import type { CutFunction } from "../../runtime/wasm/traps.ts";
import { parseModule } from "./wasm-module.ts";

/** As serving/edge-sessions.ts writes it; `engine` is the SHA-256 of the full engine. */
const trapSchema = z.object({
  event: z.literal("engine_trap"),
  engine: z.string(),
  function: z.int().optional(),
  slot: z.int().optional(),
});

export interface TrapLog {
  readonly cut: readonly CutFunction[];
  /** Lines about other engines, whose numbers mean other functions. */
  readonly ofOtherEngines: number;
}

/** @param text JSON lines, among lines of any other kind; each may begin with a time or a name @param engine SHA-256 of the full engine */
export function readTrapLog(text: string, engine: string): TrapLog {
  const records = text.split("\n").flatMap((line) => {
    try {
      return [trapSchema.parse(JSON.parse(line.slice(Math.max(line.indexOf("{"), 0))))];
    } catch {
      return [];
    }
  });
  const own = records.filter((record) => record.engine === engine);
  const cut = own.flatMap(({ function: index, slot }): CutFunction[] =>
    index !== undefined ? [{ function: index }] : slot !== undefined ? [{ slot }] : [],
  );
  return { cut, ofOtherEngines: records.length - own.length };
}

/** Numbers of the functions, those in table slots looked up. @param enginePath of the full engine */
export async function functionsOf(
  cut: readonly CutFunction[],
  enginePath: string,
): Promise<number[]> {
  if (cut.length === 0) return [];
  const { slots } = parseModule(await readFile(enginePath));
  return [
    ...new Set(
      cut.flatMap((one) => ("function" in one ? [one.function] : (slots[one.slot] ?? []))),
    ),
  ];
}
