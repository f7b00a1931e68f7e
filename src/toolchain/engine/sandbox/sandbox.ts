// Sandbox: runs worker.ts in workerd with the full engine and an engine derived from it.

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
  /** Output folder of `edgetier engine prepare`. */
  readonly engineFolder: string;
  /** SHA-256 of the full engine. */
  readonly fullEngineSha256: string;
  /** An instrumented engine for `profile`, a stripped one for `validate`. */
  readonly derivedEngine: Uint8Array;
}

export interface Sandbox {
  /** @returns an uncompressed snapshot @throws session_failed, not_deterministic */
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

/** @throws component_failed if workerd rejects the engine */
export async function openSandbox({
  engineFolder,
  fullEngineSha256,
  derivedEngine,
}: SandboxOptions): Promise<Sandbox> {
  const full = await readFile(join(engineFolder, "engine.wasm"));
  const worker = await startToolchainWorker({
    name: "engine sandbox",
    entry: join(import.meta.dirname, "worker.ts"),
    engineFolder,
    modules: { "full.wasm": full, "derived.wasm": derivedEngine },
    bindings: { SOURCE: fullEngineSha256 },
  });

  async function runJob<Result>(
    job: SandboxJobWithoutInputs,
    binaries: readonly Uint8Array[],
    inputs: readonly NamedTensors[],
  ): Promise<{ value: Result; binaries: Uint8Array<ArrayBuffer>[] }> {
    const allBinaries = [...binaries];
    const packed = packTensors(inputs, allBinaries);
    return await worker.call<Result>({ ...job, inputs: packed }, allBinaries);
  }

  return {
    async takeSnapshot(model, modelSha256, warmUp) {
      const { value: head, binaries } = await runJob<SnapshotHeadRef>(
        { kind: "snapshot", modelSha256 },
        [model],
        warmUp,
      );
      return { head, bytes: binaries[0] ?? new Uint8Array() };
    },
    async profile({ bytes, head }, modelSha256, inputs) {
      const job = { kind: "profile", modelSha256, head } as const;
      return (await runJob<EngineProfile>(job, [bytes], inputs)).value;
    },
    async validate({ bytes, head }, model, modelSha256, inputs) {
      const job = { kind: "validate", modelSha256, head } as const;
      return (await runJob<EngineValidation>(job, [bytes, model], inputs)).value;
    },
    close: worker.close,
  };
}
