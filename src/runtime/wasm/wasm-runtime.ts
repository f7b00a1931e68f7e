// Runtime over onnxruntime-web's engine, one thread, in workerd (or any other V8).
// Every session gets an engine instance of its own: a trap then costs one session, and dropping a session frees its
// memory, which WebAssembly could not shrink.

import type { Runtime } from "../runtime.ts";
import { type EngineModule, type EngineOptions, startEngine } from "./engine.ts";
import { openSession } from "./open-session.ts";
import { createWasmSession } from "./wasm-session.ts";

/** @param options.maximumPages of each instance: what it asks for beyond is refused, and does not end the isolate */
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
