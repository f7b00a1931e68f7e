import wasm from "cold:engine.wasm";
// Restores the snapshot into the bundled engine.
import facts from "cold:facts";
import glue from "cold:glue.mjs";
import image from "cold:image.bin";
import type { NamedTensors } from "../../../../src/core/tensor.ts";
import type { Session } from "../../../../src/runtime/runtime.ts";
import { createBytesSource } from "../../../../src/runtime/wasm/byte-source.ts";
import type { EngineModule } from "../../../../src/runtime/wasm/engine.ts";
import { restoreSnapshot } from "../../../../src/runtime/wasm/restore-snapshot.ts";

export const engine: EngineModule = { ...facts, wasm, glue };

export const restore = (): Promise<Session> =>
  restoreSnapshot(engine, createBytesSource(new Uint8Array(image)), facts.head, facts.graph);

export const run = async (session: Session, input: NamedTensors): Promise<Float32Array> =>
  (await session.run(input))["logits"]?.data as Float32Array;
