// Evaluates tabular students and their teacher in the students' target runtime, on rows outside the
// training set.

import { gzipSync } from "node:zlib";
import { expectFloat32Tensor, type NamedTensors } from "../../core/tensor.ts";
import { argmax } from "../argmax.ts";
import type { CandidateGraph } from "../evaluate/evaluate-candidates.ts";
import { compareLatency } from "../evaluate/latency.ts";
import type { RunnerSession, Runner } from "../evaluate/runner.ts";
import type { TabularSample, TabularTeacher } from "./distill-tabular.ts";

export interface TabularStudentEvaluation {
  readonly name: string;
  readonly bytes: number;
  readonly gzipBytes: number;
  readonly p50Ms: number;
  /**
   * Share of the labeled rows whose largest output is the label; undefined if no row has a label.
   */
  readonly accuracy: number | undefined;
  /** Share of the rows whose largest output is the same as the teacher's. */
  readonly agreement: number;
  /** Share of the variance of the teacher's outputs that the student's outputs explain. */
  readonly rSquared: number;
}

const DEFAULT_ROUNDS = 40;

/** @returns evaluations, the teacher first @throws session_failed */
export async function evaluateTabularStudents(
  teacher: TabularTeacher,
  teacherGraph: Uint8Array,
  candidates: readonly CandidateGraph[],
  samples: readonly TabularSample[],
  runner: Runner,
  rounds = DEFAULT_ROUNDS,
): Promise<TabularStudentEvaluation[]> {
  const inputs = samples.map(({ row }): NamedTensors => ({
    [teacher.input.name]: { datatype: "FP32", shape: [1, teacher.width], data: row },
  }));
  const models = [{ name: "teacher", graph: teacherGraph }, ...candidates];
  const sessions: RunnerSession[] = [];
  try {
    const outputs: Float32Array[][] = [];
    for (const { graph } of models) {
      const session = await runner.open(graph);
      sessions.push(session);
      const rows: Float32Array[] = [];
      for (const input of inputs) {
        const tensor = (await session.run(input))[teacher.output.name];
        rows.push(expectFloat32Tensor(teacher.output.name, tensor, 2).data);
      }
      outputs.push(rows);
    }
    const latency = await compareLatency(sessions, inputs, rounds);
    const reference = outputs[0] ?? [];
    return models.map(({ name, graph }, position) => ({
      name,
      bytes: graph.byteLength,
      gzipBytes: gzipSync(graph, { level: 9 }).byteLength,
      p50Ms: latency[position]?.p50Ms ?? Number.NaN,
      accuracy: computeAccuracy(outputs[position] ?? [], samples),
      agreement: computeShare(
        reference,
        (row, sample) => argmax(row) === argmax(outputs[position]?.[sample] ?? []),
      ),
      rSquared: computeRSquared(outputs[position] ?? [], reference),
    }));
  } finally {
    for (const session of sessions) await session.close();
  }
}

function computeAccuracy(
  outputs: readonly Float32Array[],
  samples: readonly TabularSample[],
): number | undefined {
  const labeled = outputs.filter((_, sample) => samples[sample]?.label !== undefined);
  const labels = samples.flatMap(({ label }) => label ?? []);
  return labeled.length === 0
    ? undefined
    : computeShare(labeled, (row, sample) => argmax(row) === labels[sample]);
}

const computeShare = <Item>(
  items: readonly Item[],
  predicate: (item: Item, position: number) => boolean,
): number => items.filter(predicate).length / items.length;

function computeRSquared(
  outputs: readonly Float32Array[],
  reference: readonly Float32Array[],
): number {
  const width = reference[0]?.length ?? 0;
  const means = Array.from(
    { length: width },
    (_, output) => reference.reduce((sum, row) => sum + (row[output] ?? 0), 0) / reference.length,
  );
  let [residual, total] = [0, 0];
  reference.forEach((row, sample) => {
    row.forEach((value, output) => {
      residual += (value - (outputs[sample]?.[output] ?? 0)) ** 2;
      total += (value - (means[output] ?? 0)) ** 2;
    });
  });
  return total === 0 ? Number(residual === 0) : 1 - residual / total;
}
