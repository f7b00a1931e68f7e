// Strips an engine to a size budget. The budget beyond the entered functions is spent on functions that no profile entered.

import { gzipSync } from "node:zlib";
import { computeCallClosure } from "./call-closure.ts";
import { stripFunctions, type StripPlan } from "./strip-functions.ts";
import type { WasmModule } from "./wasm-module.ts";

/** Candidate code sizes beyond the entered functions; the largest that fits is chosen. */
const SPARE_BYTES_STEPS = [131_072, 65_536, 32_768, 16_384, 8_192, 4_096, 0] as const;

export interface StrippedEngine {
  readonly wasm: Uint8Array<ArrayBuffer>;
  readonly gzipBytes: number;
  readonly keepFunctions: ReadonlySet<number>;
}

/** @param maxGzipBytes is exceeded only if the entered functions alone do not fit */
export function stripToBudget(
  module: WasmModule,
  entered: ReadonlySet<number>,
  plan: Omit<StripPlan, "keepFunctions">,
  maxGzipBytes: number,
): StrippedEngine {
  let fitted: StrippedEngine | undefined;
  for (const spareBytes of SPARE_BYTES_STEPS) {
    const { keepFunctions } = computeCallClosure(module, entered, spareBytes);
    const wasm = stripFunctions(module, { ...plan, keepFunctions });
    fitted = { wasm, gzipBytes: gzipSync(wasm, { level: 9 }).byteLength, keepFunctions };
    if (fitted.gzipBytes <= maxGzipBytes) return fitted;
  }
  return fitted as StrippedEngine;
}
