// Runtime over onnxruntime-web's engine, single-threaded, in workerd or any other V8.
// Every session has its own engine instance. A trap therefore affects one session only, and a dropped session frees its
// memory, which WebAssembly cannot shrink.

import type { Runtime } from "../runtime.ts";
import { type EngineModule, type EngineOptions, startEngine } from "./engine.ts";
import { openSession } from "./open-session.ts";
import { createWasmSession } from "./wasm-session.ts";

/** @param options.maximumPages memory limit of each instance; a larger allocation fails without ending the isolate */
export function createWasmRuntime(
  module: EngineModule,
  options: Pick<EngineOptions, "maximumPages"> = {},
): Runtime {
  return {
    name: "onnxruntime-web",
    async createSession(model) {
      const engine = await startEngine(module, options);
      return createWasmSession(engine, openSession(engine, model));
    },
  };
}
