import info from "../../dist/engine/engine.json" with { type: "json" };
import wasm from "../../dist/engine/engine.wasm";
// Full engine: engine module, runtime and deployment for tests in workerd.
import glue from "../../dist/engine/glue.mjs";
import type { Deployment } from "../../src/runtime/wasm/deployment.ts";
import type { EngineModule } from "../../src/runtime/wasm/engine.ts";
import { createWasmRuntime } from "../../src/runtime/wasm/wasm-runtime.ts";

export const fullEngineModule: EngineModule = { kind: "full", source: info.sha256, wasm, glue };
export const wasmRuntime = createWasmRuntime(fullEngineModule);
/** A deployment without bundled snapshots, which opens models from the store. */
export const fullDeployment: Deployment = {
  engine: fullEngineModule,
  fallback: undefined,
  bundled: [],
  artifacts: new Map(),
  warmUpRuns: 0,
  sessionBudgetBytes: 100_000_000,
};
