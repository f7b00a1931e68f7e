// Judges candidates in a real workerd: worker.ts with the full engine.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { CalibrationParameters } from "../../../cascade/calibration.ts";
import type { NamedTensors } from "../../../core/tensor.ts";
import { readImageCodecFiles } from "../../../runtime/native/image-codecs.ts";
import type { InputLimits, PreprocessorConfig } from "../../../tasks/task.ts";
import { type PackedTensors, packTensors, unpackTensors } from "../../engine/sandbox/messages.ts";
import { startToolchainWorker } from "../../engine/sandbox/toolchain-worker.ts";
import type { RunnerSession, Runner } from "../runner.ts";
import type { OpenedSession, RepeatResult, HarnessJob } from "./messages.ts";

export interface WorkerdRunnerOptions {
  /** Of `edgetier engine prepare`. */
  readonly engineFolder: string;
  /** SHA-256 of the full engine. */
  readonly engineSha256: string;
}

export interface WorkerdRunner extends Runner {
  /** @param bytes of one input, as a request brings them @returns the mean of `runs` */
  measurePreprocessMs(
    task: string,
    preprocessor: PreprocessorConfig,
    limits: InputLimits,
    bytes: Uint8Array,
    runs: number,
  ): Promise<number>;
  /** @param outputs of one row @returns the mean of `runs` */
  measurePostprocessMs(
    outputs: NamedTensors,
    labels: readonly string[],
    calibration: CalibrationParameters,
    runs: number,
  ): Promise<number>;
}

/** @throws component_failed if workerd does not take the engine */
export async function createWorkerdRunner({
  engineFolder,
  engineSha256,
}: WorkerdRunnerOptions): Promise<WorkerdRunner> {
  const [full, { jpeg, png }] = await Promise.all([
    readFile(join(engineFolder, "engine.wasm")),
    readImageCodecFiles(),
  ]);
  const worker = await startToolchainWorker({
    name: "test stand",
    entry: join(import.meta.dirname, "worker.ts"),
    engineFolder,
    modules: { "full.wasm": full, "jpeg.wasm": jpeg, "png.wasm": png },
    bindings: { SOURCE: engineSha256 },
  });
  const ask = <Answer>(job: HarnessJob, binaries: readonly Uint8Array[] = []) =>
    worker.call<Answer>(job, binaries);

  /** A Worker's clock stands still while it computes, so that the time is taken here, and that of asking is taken off. */
  async function meanMs(runs: number, repeat: (runs: number) => Promise<unknown>): Promise<number> {
    const elapsedMs = async (times: number) => {
      const startedAtMs = performance.now();
      await repeat(times);
      return performance.now() - startedAtMs;
    };
    const askingMs = Math.min(await elapsedMs(0), await elapsedMs(0));
    return Math.max(0, (await elapsedMs(runs)) - askingMs) / runs;
  }

  async function open(graph: Uint8Array): Promise<RunnerSession> {
    const {
      sessionId: session,
      inputs,
      outputs,
    } = (await ask<OpenedSession>({ kind: "open" }, [graph])).value;
    let memoryBytes: number | undefined;
    return {
      inputs,
      outputs,
      async run(tensors) {
        const binaries: Uint8Array[] = [];
        const [packed = {}] = packTensors([tensors], binaries);
        const answer = await ask<PackedTensors>(
          { kind: "run", sessionId: session, inputs: packed },
          binaries,
        );
        return unpackTensors(answer.value, answer.binaries);
      },
      async measureMeanMs(tensors, runs) {
        const binaries: Uint8Array[] = [];
        const [packed = {}] = packTensors([tensors], binaries);
        return await meanMs(runs, async (times) => {
          memoryBytes = (
            await ask<RepeatResult>(
              { kind: "repeat", sessionId: session, inputs: packed, runs: times },
              binaries,
            )
          ).value.memoryBytes;
        });
      },
      memoryBytes: () => memoryBytes,
      close: async () => void (await ask({ kind: "close", sessionId: session })),
    };
  }

  return {
    name: "workerd",
    open,
    async measurePreprocessMs(task, config, limits, bytes, runs) {
      const { artifact, ...preprocessor } = { artifact: undefined, ...config };
      const job = {
        kind: "preprocess",
        task,
        preprocessor,
        hasArtifact: artifact !== undefined,
        limits,
      } as const;
      return await meanMs(runs, (times) =>
        ask({ ...job, runs: times }, artifact === undefined ? [bytes] : [artifact, bytes]),
      );
    },
    async measurePostprocessMs(outputs, labels, calibration, runs) {
      const binaries: Uint8Array[] = [];
      const [packed = {}] = packTensors([outputs], binaries);
      return await meanMs(runs, (times) =>
        ask({ kind: "postprocess", outputs: packed, labels, calibration, runs: times }, binaries),
      );
    },
    close: worker.close,
  };
}
