// Opens a graph in a runtime and runs it, to see whether it can be served there, and that it answers as elsewhere.

import { byteView, concatBytes } from "../../core/bytes.ts";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import { type NamedTensors, type Tensor, type TensorSpec, typedArrays } from "../../core/tensor.ts";
import { compareOutputs } from "../../runtime/native/compare-outputs.ts";
import type { RunnerSession, Runner } from "../evaluate/runner.ts";

export interface TrialRun {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Why it did not run, though it opened. */
  readonly failure: string | undefined;
  /** One for each of the samples. */
  readonly sampleOutputs: readonly NamedTensors[];
  /** After them; undefined where the runtime cannot tell. */
  readonly memoryBytes: number | undefined;
}

/** Samples, once what the graph takes is known. */
export type LoadSamples = (
  ports: Pick<TrialRun, "inputs" | "outputs">,
) => Promise<readonly NamedTensors[]>;

/** @throws session_failed if it cannot be opened, and what `samplesFor` throws */
export async function runTrial(
  runner: Runner,
  graph: Uint8Array,
  samplesFor: LoadSamples,
): Promise<TrialRun> {
  return await withSession(runner, graph, async (session) => {
    const { inputs, outputs } = session;
    const samples = await samplesFor({ inputs, outputs });
    const answers: NamedTensors[] = [];
    let failed: string | undefined;
    try {
      for (const sample of samples) answers.push(await session.run(sample));
      const [first] = samples;
      if (first !== undefined) await session.measureMeanMs(first, 1); // after which workerd tells its memory
    } catch (error) {
      if (!(error instanceof EdgeTierError)) throw error;
      failed = shortReason(error);
    }
    return {
      inputs,
      outputs,
      failure: failed,
      sampleOutputs: answers,
      memoryBytes: session.memoryBytes(),
    };
  });
}

/** Without the full stop, and without where in ONNX Runtime's source it comes from. */
export const shortReason = ({ detail }: EdgeTierError): string =>
  detail.replace(/\/onnxruntime_src\/\S+:\d+ .*?\) (?=[A-Z])/s, "").replace(/\.$/, "");

/** Why the edge cannot serve it; undefined if it can. */
export async function findEdgeProblem(
  runner: Runner,
  graph: Uint8Array,
  samples: readonly NamedTensors[],
  expected: readonly NamedTensors[],
  budgetBytes: number,
): Promise<string | undefined> {
  if (graph.byteLength > budgetBytes)
    return `it has ${graph.byteLength} bytes, and all sessions of an isolate together have ${budgetBytes}`;
  try {
    const {
      sampleOutputs: answers,
      failure: failed,
      memoryBytes = 0,
    } = await runTrial(runner, graph, async () => samples);
    if (failed !== undefined) return failed;
    if (memoryBytes > budgetBytes)
      return `its session takes ${memoryBytes} bytes, and all sessions of an isolate together have ${budgetBytes}`;
    const different = answers
      .map((answer, index) => compareOutputs(expected[index] ?? {}, answer).problem)
      .find((problem) => problem !== undefined);
    return different === undefined
      ? undefined
      : `it answers otherwise than in onnxruntime-node: ${different}`;
  } catch (error) {
    return error instanceof EdgeTierError
      ? shortReason(error)
      : `the engine broke off: ${reasonOf(error)}`;
  }
}

/**
 * Whether two rows in one run get what each gets alone.
 * @param samples of one row each @returns why not; undefined if they do
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

/** Rows one after the other: the first dimension is the batch. */
function concatBatch(first: NamedTensors, second: NamedTensors): NamedTensors {
  return Object.fromEntries(
    Object.entries(first).map(([name, tensor]): [string, Tensor] => {
      const other = second[name] ?? tensor;
      const [rows = 0, ...rest] = tensor.shape;
      const shape = [rows + (other.shape[0] ?? 0), ...rest];
      if (tensor.datatype === "BYTES" || other.datatype === "BYTES") return [name, tensor]; // no task's graph takes texts
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
  work: (session: RunnerSession) => Promise<Result>,
): Promise<Result> {
  const session = await runner.open(graph);
  try {
    return await work(session);
  } finally {
    await session.close();
  }
}
