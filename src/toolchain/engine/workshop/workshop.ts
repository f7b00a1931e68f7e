// Runs the workshop: worker.ts with the full engine and one that is made of it.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { NamedTensors } from "../../../core/tensor.ts";
import type { EncodedSnapshot, HeadRef } from "../../../runtime/wasm/snapshot-format.ts";
import { type JobWithoutInputs, packTensors, type Profile, type Validation } from "./messages.ts";
import { startToolWorker } from "./tool-worker.ts";

export interface WorkshopOptions {
  /** Of `edgetier engine prepare`. */
  readonly engineFolder: string;
  /** SHA-256 of the full engine. */
  readonly source: string;
  /** An instrumented engine for `profile`, a cut one for `validate`. */
  readonly other: Uint8Array;
}

export interface Workshop {
  /** Uncompressed. @throws session_failed, not_deterministic */
  takeSnapshot(
    model: Uint8Array,
    modelSha256: string,
    warmUp: readonly NamedTensors[],
  ): Promise<EncodedSnapshot>;
  profile(
    snapshot: EncodedSnapshot,
    modelSha256: string,
    inputs: readonly NamedTensors[],
  ): Promise<Profile>;
  validate(
    snapshot: EncodedSnapshot,
    model: Uint8Array,
    modelSha256: string,
    inputs: readonly NamedTensors[],
  ): Promise<Validation>;
  close(): Promise<void>;
}

/** @throws component_failed if workerd does not take the engine */
export async function openWorkshop({
  engineFolder,
  source,
  other,
}: WorkshopOptions): Promise<Workshop> {
  const full = await readFile(join(engineFolder, "engine.wasm"));
  const worker = await startToolWorker({
    name: "engine workshop",
    entry: join(import.meta.dirname, "worker.ts"),
    engineFolder,
    modules: { "full.wasm": full, "other.wasm": other },
    bindings: { SOURCE: source },
  });

  async function ask<Answer>(
    job: JobWithoutInputs,
    binaries: Uint8Array[],
    inputs: readonly NamedTensors[],
  ): Promise<{ value: Answer; binaries: Uint8Array<ArrayBuffer>[] }> {
    const all = [...binaries];
    const packed = packTensors(inputs, all);
    return await worker.ask<Answer>({ ...job, inputs: packed }, all);
  }

  return {
    async takeSnapshot(model, modelSha256, warmUp) {
      const { value: head, binaries } = await ask<HeadRef>(
        { kind: "snapshot", modelSha256 },
        [model],
        warmUp,
      );
      return { head, bytes: binaries[0] ?? new Uint8Array() };
    },
    async profile({ bytes, head }, modelSha256, inputs) {
      return (await ask<Profile>({ kind: "profile", modelSha256, head }, [bytes], inputs)).value;
    },
    async validate({ bytes, head }, model, modelSha256, inputs) {
      return (
        await ask<Validation>({ kind: "validate", modelSha256, head }, [bytes, model], inputs)
      ).value;
    },
    close: worker.close,
  };
}
