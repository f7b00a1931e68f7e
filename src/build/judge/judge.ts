// Judges candidates for a tier by measurement in the runtime that they are for, and refuses those that are not worth it.

import { gzipSync } from "node:zlib";
import { reasonOf } from "../../core/errors.ts";
import { mark, type Marks, type Question, sitExam } from "./exam.ts";
import { compareLatency, type Latency } from "./latency.ts";
import type { JudgedSession, Runner } from "./runner.ts";

export interface Candidate {
  readonly name: string;
  readonly graph: Uint8Array;
}

export interface Bounds {
  /** Of accuracy, against the reference. */
  readonly maxLossPoints: number;
  readonly maxBytes?: number | undefined;
  /** By the reference's latency: 1 refuses what is slower. */
  readonly maxLatencyRatio?: number | undefined;
}

export interface JudgeOptions {
  /** The runtime that the tier is for. Accuracy and verdict are of it. */
  readonly runner: Runner;
  /** Others in which latency is measured as well. */
  readonly others?: readonly Runner[];
  readonly bounds: Bounds;
  readonly rounds?: number;
  readonly onProgress?: (event: JudgeProgress) => void;
}

export type JudgeProgress =
  | { readonly step: "accuracy"; readonly candidate: string; readonly done: number; readonly of: number }
  | { readonly step: "latency"; readonly runtime: string; readonly done: number; readonly of: number };

export interface Judgement {
  readonly name: string;
  readonly bytes: number;
  readonly gzipBytes: number;
  /** Why it is refused, each with its figure; empty if it is not. */
  readonly refused: readonly string[];
  /** Absent where it could not be run: `refused` says why. */
  readonly measured?: Marks & {
    /** By the runtimes' names. */
    readonly latency: Readonly<Record<string, Latency>>;
    /** Of the runtime that the tier is for, where it can tell. */
    readonly memoryBytes: number | undefined;
  };
}

const ROUNDS = 40;

/**
 * @param candidates the first is the reference: what the others are compared with, and never refused
 * @throws session_failed if the reference cannot be run
 */
export async function judge(candidates: readonly Candidate[], questions: readonly Question[], options: JudgeOptions): Promise<Judgement[]> {
  const { runner, others = [], bounds, rounds = ROUNDS, onProgress = () => {} } = options;
  const examined: { candidate: Candidate; session?: JudgedSession; marks?: Marks; failed?: string }[] = [];
  let reference: Float32Array[] | undefined;
  try {
    for (const candidate of candidates) {
      let session: JudgedSession | undefined;
      try {
        session = await runner.open(candidate.graph);
        const answers = await sitExam(session, questions, (done) => onProgress({ step: "accuracy", candidate: candidate.name, done, of: questions.length }));
        reference ??= answers;
        examined.push({ candidate, session, marks: mark(questions, answers, reference) });
      } catch (error) {
        await session?.close();
        if (reference === undefined) throw error;
        examined.push({ candidate, failed: `it does not run in ${runner.name}: ${reasonOf(error)}` });
      }
    }
    const sitting = examined.flatMap(({ candidate, session, marks }) => (session === undefined || marks === undefined ? [] : [{ candidate, session, marks }]));
    const inputs = questions.map((question) => question.inputs);
    const progress = (runtime: string) => (done: number) => onProgress({ step: "latency", runtime, done, of: rounds });
    const times = new Map([[runner.name, await compareLatency(sitting.map(({ session }) => session), inputs, rounds, progress(runner.name))]]);
    for (const other of others) times.set(other.name, await latencyIn(other, sitting.map(({ candidate }) => candidate), inputs, rounds, progress(other.name)));
    return examined.map(({ candidate, session, marks, failed }) => {
      const position = sitting.findIndex((one) => one.candidate === candidate);
      const sizes = { name: candidate.name, bytes: candidate.graph.byteLength, gzipBytes: gzipSync(candidate.graph, { level: 9 }).byteLength };
      if (session === undefined || marks === undefined) return { ...sizes, refused: [failed ?? "it was not examined"] };
      const latency = Object.fromEntries([...times].flatMap(([name, all]) => (all[position] === undefined ? [] : [[name, all[position]]])));
      const own = times.get(runner.name)?.[position];
      const refused = candidate === candidates[0] || own === undefined ? [] : violations(sizes.bytes, marks, own, bounds, runner.name);
      return { ...sizes, refused, measured: { ...marks, latency, memoryBytes: session.memoryBytes() } };
    });
  } finally {
    for (const { session } of examined) await session?.close();
  }
}

async function latencyIn(runner: Runner, candidates: readonly Candidate[], inputs: readonly Question["inputs"][], rounds: number, onProgress: (done: number) => void): Promise<Latency[]> {
  const sessions: JudgedSession[] = [];
  try {
    for (const { graph } of candidates) sessions.push(await runner.open(graph));
    return await compareLatency(sessions, inputs, rounds, onProgress);
  } finally {
    for (const session of sessions) await session.close();
  }
}

function violations(bytes: number, { lossPoints }: Marks, { ratio }: Latency, { maxLossPoints, maxBytes, maxLatencyRatio }: Bounds, runtime: string): string[] {
  return [
    ...(lossPoints > maxLossPoints ? [`it loses ${lossPoints.toFixed(2)} points, ${maxLossPoints} are allowed`] : []),
    ...(maxBytes !== undefined && bytes > maxBytes ? [`it has ${bytes} bytes, ${maxBytes} are allowed`] : []),
    ...(maxLatencyRatio !== undefined && ratio > maxLatencyRatio ? [`it takes ${ratio.toFixed(2)} times as long in ${runtime}, ${maxLatencyRatio} are allowed`] : []),
  ];
}
