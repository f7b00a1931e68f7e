// Cuts an engine and spends what its size budget leaves on functions that no profile has entered.

import { gzipSync } from "node:zlib";
import { closeOver } from "./closure.ts";
import { cut, type CutPlan } from "./cut.ts";
import type { WasmModule } from "./wasm-module.ts";

/** Bytes of code beyond what was entered; the largest that fits is taken. */
const SPARE_BYTES = [131_072, 65_536, 32_768, 16_384, 8_192, 4_096, 0] as const;

export interface FittedEngine {
  readonly wasm: Uint8Array<ArrayBuffer>;
  readonly gzipBytes: number;
  readonly keep: ReadonlySet<number>;
}

/** @param maxGzipBytes is exceeded only where what was entered does not fit */
export function cutToFit(
  module: WasmModule,
  entered: ReadonlySet<number>,
  plan: Omit<CutPlan, "keep">,
  maxGzipBytes: number,
): FittedEngine {
  let fitted: FittedEngine | undefined;
  for (const spareBytes of SPARE_BYTES) {
    const { keep } = closeOver(module, entered, spareBytes);
    const wasm = cut(module, { ...plan, keep });
    fitted = { wasm, gzipBytes: gzipSync(wasm, { level: 9 }).byteLength, keep };
    if (fitted.gzipBytes <= maxGzipBytes) return fitted;
  }
  return fitted as FittedEngine;
}
