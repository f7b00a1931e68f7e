// workerd runner: runs graphs in workerd with the full engine, through the harness Worker (worker.ts).

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
  /** Output folder of `edgetier engine prepare`. */
  readonly engineFolder: string;
  /** SHA-256 of the full engine. */
  readonly engineSha256: string;
}

export interface WorkerdRunner extends Runner {
  /** @param bytes one input, encoded as in a request @returns the mean time of `runs` runs */
  measurePreprocessMs(
    task: string,
    preprocessor: PreprocessorConfig,
    limits: InputLimits,
    bytes: Uint8Array,
    runs: number,
  ): Promise<number>;
  /** @param outputs outputs of one row @returns the mean time of `runs` runs */
  measurePostprocessMs(
    outputs: NamedTensors,
    labels: readonly string[],
    calibration: CalibrationParameters,
    runs: number,
  ): Promise<number>;
}

/** @throws component_failed if workerd rejects the engine */
export async function createWorkerdRunner({
  engineFolder,
  engineSha256,
}: WorkerdRunnerOptions): Promise<WorkerdRunner> {
  const [full, { jpeg, png }] = await Promise.all([
    readFile(join(engineFolder, "engine.wasm")),
    readImageCodecFiles(),
  ]);
  const worker = await startToolchainWorker({
    name: "evaluation harness",
    entry: join(import.meta.dirname, "worker.ts"),
    engineFolder,
    modules: { "full.wasm": full, "jpeg.wasm": jpeg, "png.wasm": png },
    bindings: { SOURCE: engineSha256 },
  });
  const callHarness: CallHarness = (job, binaries = []) => worker.call(job, binaries);
  return {
    name: "workerd",
    open: (graph) => openHarnessSession(callHarness, graph),
    async measurePreprocessMs(task, config, limits, bytes, runs) {
      const { artifact, ...preprocessor } = { artifact: undefined, ...config };
      const job = {
        kind: "preprocess",
        task,
        preprocessor,
        hasArtifact: artifact !== undefined,
        limits,
      } as const;
      const binaries = artifact === undefined ? [bytes] : [artifact, bytes];
      return await measureMeanMs(runs, (count) => callHarness({ ...job, runs: count }, binaries));
    },
    async measurePostprocessMs(outputs, labels, calibration, runs) {
      const binaries: Uint8Array[] = [];
      const [packed = {}] = packTensors([outputs], binaries);
      const job = { kind: "postprocess", outputs: packed, labels, calibration } as const;
      return await measureMeanMs(runs, (count) => callHarness({ ...job, runs: count }, binaries));
    },
    close: worker.close,
  };
}

type CallHarness = <Result>(
  job: HarnessJob,
  binaries?: readonly Uint8Array[],
) => Promise<{ readonly value: Result; readonly binaries: Uint8Array<ArrayBuffer>[] }>;

async function openHarnessSession(
  callHarness: CallHarness,
  graph: Uint8Array,
): Promise<RunnerSession> {
  const { value: opened } = await callHarness<OpenedSession>({ kind: "open" }, [graph]);
  const { sessionId, inputs, outputs } = opened;
  let memoryBytes: number | undefined;
  return {
    inputs,
    outputs,
    async run(tensors) {
      const binaries: Uint8Array[] = [];
      const [packed = {}] = packTensors([tensors], binaries);
      const job = { kind: "run", sessionId, inputs: packed } as const;
      const result = await callHarness<PackedTensors>(job, binaries);
      return unpackTensors(result.value, result.binaries);
    },
    async measureMeanMs(tensors, runs) {
      const binaries: Uint8Array[] = [];
      const [packed = {}] = packTensors([tensors], binaries);
      const job = { kind: "repeat", sessionId, inputs: packed } as const;
      return await measureMeanMs(runs, async (count) => {
        const { value } = await callHarness<RepeatResult>({ ...job, runs: count }, binaries);
        ({ memoryBytes } = value);
      });
    },
    memoryBytes: () => memoryBytes,
    close: async () => void (await callHarness({ kind: "close", sessionId })),
  };
}

/**
 * Measures the mean time of a run from outside, because a Worker's clock stops while it computes. The time of a call
 * without runs is subtracted.
 */
async function measureMeanMs(
  runs: number,
  repeat: (runs: number) => Promise<unknown>,
): Promise<number> {
  const measureMs = async (count: number) => {
    const startedAtMs = performance.now();
    await repeat(count);
    return performance.now() - startedAtMs;
  };
  const overheadMs = Math.min(await measureMs(0), await measureMs(0));
  return Math.max(0, (await measureMs(runs)) - overheadMs) / runs;
}
