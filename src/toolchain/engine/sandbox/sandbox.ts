// Runs the sandbox: worker.ts with the full engine and one that is made of it.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { NamedTensors } from "../../../core/tensor.ts";
import type { EncodedSnapshot, SnapshotHeadRef } from "../../../runtime/wasm/snapshot-format.ts";
import {
  type SandboxJobWithoutInputs,
  packTensors,
  type EngineProfile,
  type EngineValidation,
} from "./messages.ts";
import { startToolchainWorker } from "./toolchain-worker.ts";

export interface SandboxOptions {
  /** Of `edgetier engine prepare`. */
  readonly engineFolder: string;
  /** SHA-256 of the full engine. */
  readonly fullEngineSha256: string;
  /** An instrumented engine for `profile`, a cut one for `validate`. */
  readonly derivedEngine: Uint8Array;
}

export interface Sandbox {
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
  ): Promise<EngineProfile>;
  validate(
    snapshot: EncodedSnapshot,
    model: Uint8Array,
    modelSha256: string,
    inputs: readonly NamedTensors[],
  ): Promise<EngineValidation>;
  close(): Promise<void>;
}

/** @throws component_failed if workerd does not take the engine */
export async function openSandbox({
  engineFolder,
  fullEngineSha256: source,
  derivedEngine: other,
}: SandboxOptions): Promise<Sandbox> {
  const full = await readFile(join(engineFolder, "engine.wasm"));
  const worker = await startToolchainWorker({
    name: "engine workshop",
    entry: join(import.meta.dirname, "worker.ts"),
    engineFolder,
    modules: { "full.wasm": full, "derived.wasm": other },
    bindings: { SOURCE: source },
  });

  async function ask<Answer>(
    job: SandboxJobWithoutInputs,
    binaries: Uint8Array[],
    inputs: readonly NamedTensors[],
  ): Promise<{ value: Answer; binaries: Uint8Array<ArrayBuffer>[] }> {
    const all = [...binaries];
    const packed = packTensors(inputs, all);
    return await worker.call<Answer>({ ...job, inputs: packed }, all);
  }

  return {
    async takeSnapshot(model, modelSha256, warmUp) {
      const { value: head, binaries } = await ask<SnapshotHeadRef>(
        { kind: "snapshot", modelSha256 },
        [model],
        warmUp,
      );
      return { head, bytes: binaries[0] ?? new Uint8Array() };
    },
    async profile({ bytes, head }, modelSha256, inputs) {
      return (await ask<EngineProfile>({ kind: "profile", modelSha256, head }, [bytes], inputs))
        .value;
    },
    async validate({ bytes, head }, model, modelSha256, inputs) {
      return (
        await ask<EngineValidation>({ kind: "validate", modelSha256, head }, [bytes, model], inputs)
      ).value;
    },
    close: worker.close,
  };
}
