// Restores the snapshot into the bundled engine.
import facts from "cold:facts";
import glue from "cold:glue.mjs";
import image from "cold:image.bin";
import wasm from "cold:engine.wasm";
import type { NamedTensors } from "../../../../src/core/tensor.ts";
import type { Session } from "../../../../src/runtime/runtime.ts";
import { bytesSource } from "../../../../src/runtime/wasm/byte-source.ts";
import { restoreSnapshot } from "../../../../src/runtime/wasm/restore-snapshot.ts";

export const restore = (): Promise<Session> => restoreSnapshot({ ...facts, wasm, glue }, bytesSource(new Uint8Array(image)), facts.head, facts.graph);

export const run = async (session: Session, input: NamedTensors): Promise<Float32Array> => (await session.run(input))["logits"]?.data as Float32Array;
