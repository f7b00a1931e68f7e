// Cuts an engine and spends what its size budget leaves on functions that no profile has entered.

import { gzipSync } from "node:zlib";
import { computeCallClosure } from "./call-closure.ts";
import { stripFunctions, type StripPlan } from "./strip-functions.ts";
import type { WasmModule } from "./wasm-module.ts";

/** Bytes of code beyond what was entered; the largest that fits is taken. */
const SPARE_BYTES_STEPS = [131_072, 65_536, 32_768, 16_384, 8_192, 4_096, 0] as const;

export interface StrippedEngine {
  readonly wasm: Uint8Array<ArrayBuffer>;
  readonly gzipBytes: number;
  readonly keepFunctions: ReadonlySet<number>;
}

/** @param maxGzipBytes is exceeded only where what was entered does not fit */
export function stripToBudget(
  module: WasmModule,
  entered: ReadonlySet<number>,
  plan: Omit<StripPlan, "keepFunctions">,
  maxGzipBytes: number,
): StrippedEngine {
  let fitted: StrippedEngine | undefined;
  for (const spareBytes of SPARE_BYTES_STEPS) {
    const { keepFunctions: keep } = computeCallClosure(module, entered, spareBytes);
    const wasm = stripFunctions(module, { ...plan, keepFunctions: keep });
    fitted = { wasm, gzipBytes: gzipSync(wasm, { level: 9 }).byteLength, keepFunctions: keep };
    if (fitted.gzipBytes <= maxGzipBytes) return fitted;
  }
  return fitted as StrippedEngine;
}
