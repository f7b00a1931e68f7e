// The engine that the Worker bundles, for tests inside workerd.
import glue from "../../dist/engine/glue.mjs";
import wasm from "../../dist/engine/engine.wasm";
import { createWasmRuntime } from "../../src/runtime/wasm/wasm-runtime.ts";

export const engineModule = { wasm, glue };
export const wasmRuntime = createWasmRuntime(engineModule);
