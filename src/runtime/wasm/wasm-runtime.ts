// Runtime over onnxruntime-web's engine, one thread, in workerd (or any other V8).
// Every session gets an engine instance of its own: a trap then costs one session, and dropping a session frees its
// memory, which WebAssembly could not shrink.

import type { Runtime } from "../runtime.ts";
import { type EngineModule, startEngine } from "./engine.ts";
import { openSession } from "./open-session.ts";
import { createWasmSession } from "./session.ts";

export function createWasmRuntime(module: EngineModule): Runtime {
  return {
    name: "onnxruntime-web",
    async createSession(model) {
      const engine = await startEngine(module);
      return createWasmSession(engine, openSession(engine, model));
    },
  };
}
