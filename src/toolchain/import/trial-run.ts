// Opens a graph in a runtime and runs it, to verify that the runtime supports it and computes the
// expected outputs.

import { byteView, concatBytes } from "../../core/bytes.ts";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import { type NamedTensors, type Tensor, type TensorSpec, typedArrays } from "../../core/tensor.ts";
import { compareOutputs } from "../../runtime/native/compare-outputs.ts";
import type { RunnerSession, Runner } from "../evaluate/runner.ts";

export interface TrialRun {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Why the graph did not run, although it opened. */
  readonly failure: string | undefined;
  /** The outputs of each sample. */
  readonly sampleOutputs: readonly NamedTensors[];
  /** Memory after the samples; undefined if the runtime does not report it. */
  readonly memoryBytes: number | undefined;
}

/** Loads the samples after the graph's inputs are known. */
export type LoadSamples = (
  ports: Pick<TrialRun, "inputs" | "outputs">,
) => Promise<readonly NamedTensors[]>;

/** @throws session_failed if the graph cannot be opened, and the errors of `loadSamples` */
export async function runTrial(
  runner: Runner,
  graph: Uint8Array,
  loadSamples: LoadSamples,
): Promise<TrialRun> {
  return await withSession(runner, graph, async (session) => {
    const { inputs, outputs } = session;
    const samples = await loadSamples({ inputs, outputs });
    const sampleOutputs: NamedTensors[] = [];
    let failure: string | undefined;
    try {
      for (const sample of samples) sampleOutputs.push(await session.run(sample));
      const [first] = samples;
      // workerd reports its memory only after a timed call.
      if (first !== undefined) await session.measureMeanMs(first, 1);
    } catch (error) {
      if (!(error instanceof EdgeTierError)) throw error;
      failure = shortReason(error);
    }
    return { inputs, outputs, failure, sampleOutputs, memoryBytes: session.memoryBytes() };
  });
}

/** Removes the final period and ONNX Runtime's source location from an error's detail. */
export const shortReason = ({ detail }: EdgeTierError): string =>
  detail.replace(/\/onnxruntime_src\/\S+:\d+ .*?\) (?=[A-Z])/s, "").replace(/\.$/, "");

/** Returns the reason that the edge cannot serve the graph, or undefined if it can. */
export async function findEdgeProblem(
  runner: Runner,
  graph: Uint8Array,
  samples: readonly NamedTensors[],
  expected: readonly NamedTensors[],
  budgetBytes: number,
): Promise<string | undefined> {
  if (graph.byteLength > budgetBytes)
    return `it has ${graph.byteLength} bytes, and all sessions of an isolate share ${budgetBytes}`;
  try {
    const {
      sampleOutputs,
      failure,
      memoryBytes = 0,
    } = await runTrial(runner, graph, async () => samples);
    if (failure !== undefined) return failure;
    if (memoryBytes > budgetBytes)
      return `its session takes ${memoryBytes} bytes, and all sessions of an isolate share ${budgetBytes}`;
    const difference = sampleOutputs
      .map((answer, index) => compareOutputs(expected[index] ?? {}, answer).problem)
      .find((problem) => problem !== undefined);
    return difference === undefined
      ? undefined
      : `its outputs differ from those of onnxruntime-node: ${difference}`;
  } catch (error) {
    return error instanceof EdgeTierError
      ? shortReason(error)
      : `the engine failed: ${reasonOf(error)}`;
  }
}

/**
 * Compares two rows in one batch with the same rows in separate runs.
 * @param samples one row each
 * @returns the difference, or undefined if the results agree
 */
export async function findBatchProblem(
  runner: Runner,
  graph: Uint8Array,
  [first, ...others]: readonly NamedTensors[],
): Promise<string | undefined> {
  if (first === undefined) return undefined;
  const second =
    others.find((other) =>
      Object.entries(first).every(
        ([name, { shape }]) => shape.join() === other[name]?.shape.join(),
      ),
    ) ?? first;
  try {
    return await withSession(runner, graph, async (session) => {
      const expected = concatBatch(await session.run(first), await session.run(second));
      return compareOutputs(expected, await session.run(concatBatch(first, second))).problem;
    });
  } catch (error) {
    if (!(error instanceof EdgeTierError)) throw error;
    return shortReason(error);
  }
}

/** Concatenates along the first dimension, which is the batch. */
function concatBatch(first: NamedTensors, second: NamedTensors): NamedTensors {
  return Object.fromEntries(
    Object.entries(first).map(([name, tensor]): [string, Tensor] => {
      const other = second[name] ?? tensor;
      const [rows = 0, ...rest] = tensor.shape;
      const shape = [rows + (other.shape[0] ?? 0), ...rest];
      // Graphs with a task never have text tensors.
      if (tensor.datatype === "BYTES" || other.datatype === "BYTES") return [name, tensor];
      const { buffer } = concatBytes([byteView(tensor.data), byteView(other.data)]);
      return [
        name,
        {
          datatype: tensor.datatype,
          shape,
          data: new typedArrays[tensor.datatype](buffer),
        } as Tensor,
      ];
    }),
  );
}

async function withSession<Result>(
  runner: Runner,
  graph: Uint8Array,
  use: (session: RunnerSession) => Promise<Result>,
): Promise<Result> {
  const session = await runner.open(graph);
  try {
    return await use(session);
  } finally {
    await session.close();
  }
}
