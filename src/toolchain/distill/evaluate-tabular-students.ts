// What tabular students are worth: in the runtime that they are for, on rows that none of them has learnt, beside their teacher.

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
  /** Share of the rows with a label whose largest output is its; undefined where no row has one. */
  readonly accuracy: number | undefined;
  /** Share of the rows whose largest output is the teacher's. */
  readonly agreement: number;
  /** Share of the variance of the teacher's outputs that the student's explain. */
  readonly rSquared: number;
}

const DEFAULT_ROUNDS = 40;

/** @returns the teacher first @throws session_failed */
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
  const all = [{ name: "teacher", graph: teacherGraph }, ...candidates];
  const sessions: RunnerSession[] = [];
  try {
    const answers: Float32Array[][] = [];
    for (const { graph } of all) {
      const session = await runner.open(graph);
      sessions.push(session);
      const own: Float32Array[] = [];
      for (const one of inputs)
        own.push(
          expectFloat32Tensor(teacher.output.name, (await session.run(one))[teacher.output.name], 2)
            .data,
        );
      answers.push(own);
    }
    const latency = await compareLatency(sessions, inputs, rounds);
    const reference = answers[0] ?? [];
    return all.map(({ name, graph }, position) => ({
      name,
      bytes: graph.byteLength,
      gzipBytes: gzipSync(graph, { level: 9 }).byteLength,
      p50Ms: latency[position]?.p50Ms ?? Number.NaN,
      accuracy: computeAccuracy(answers[position] ?? [], samples),
      agreement: computeShare(
        reference,
        (row, sample) => argmax(row) === argmax(answers[position]?.[sample] ?? []),
      ),
      rSquared: computeRSquared(answers[position] ?? [], reference),
    }));
  } finally {
    for (const session of sessions) await session.close();
  }
}

function computeAccuracy(
  answers: readonly Float32Array[],
  samples: readonly TabularSample[],
): number | undefined {
  const labelled = answers.filter((_, sample) => samples[sample]?.label !== undefined);
  const labels = samples.flatMap(({ label }) => label ?? []);
  return labelled.length === 0
    ? undefined
    : computeShare(labelled, (row, sample) => argmax(row) === labels[sample]);
}

const computeShare = <Item>(
  items: readonly Item[],
  counts: (item: Item, position: number) => boolean,
): number => items.filter(counts).length / items.length;

function computeRSquared(
  answers: readonly Float32Array[],
  reference: readonly Float32Array[],
): number {
  const outputs = reference[0]?.length ?? 0;
  const means = Array.from(
    { length: outputs },
    (_, output) => reference.reduce((sum, row) => sum + (row[output] ?? 0), 0) / reference.length,
  );
  let [rest, whole] = [0, 0];
  reference.forEach((row, sample) => {
    row.forEach((value, output) => {
      rest += (value - (answers[sample]?.[output] ?? 0)) ** 2;
      whole += (value - (means[output] ?? 0)) ** 2;
    });
  });
  return whole === 0 ? Number(rest === 0) : 1 - rest / whole;
}
