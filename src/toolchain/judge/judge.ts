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
  /** Gets the logits of each candidate that could be run, one row per question. */
  readonly onAnswers?: (candidate: Candidate, answers: readonly Float32Array[]) => void;
}

export type JudgeProgress =
  | {
      readonly step: "accuracy";
      readonly candidate: string;
      readonly done: number;
      readonly of: number;
    }
  | {
      readonly step: "latency";
      readonly runtime: string;
      readonly done: number;
      readonly of: number;
    };

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
export async function judge(
  candidates: readonly Candidate[],
  questions: readonly Question[],
  options: JudgeOptions,
): Promise<Judgement[]> {
  const {
    runner,
    others = [],
    bounds,
    rounds = ROUNDS,
    onProgress = () => {},
    onAnswers = () => {},
  } = options;
  const { sitting, failed } = await examine(candidates, questions, {
    runner,
    onProgress,
    onAnswers,
  });
  try {
    const inputs = questions.map((question) => question.inputs);
    const progress = (runtime: string) => (done: number) =>
      onProgress({ step: "latency", runtime, done, of: rounds });
    const own = await compareLatency(
      sitting.map(({ session }) => session),
      inputs,
      rounds,
      progress(runner.name),
    );
    const elsewhere = new Map<string, readonly Latency[]>();
    for (const other of others)
      elsewhere.set(
        other.name,
        await latencyIn(
          other,
          sitting.map(({ candidate }) => candidate),
          inputs,
          rounds,
          progress(other.name),
        ),
      );

    return candidates.map((candidate, order) => {
      const sizes = {
        name: candidate.name,
        bytes: candidate.graph.byteLength,
        gzipBytes: gzipSync(candidate.graph, { level: 9 }).byteLength,
      };
      const position = sitting.findIndex((one) => one.candidate === candidate);
      const [examined, ownLatency] = [sitting[position], own[position]];
      if (examined === undefined || ownLatency === undefined)
        return { ...sizes, refused: [failed.get(candidate) ?? "it was not examined"] };
      const latency = {
        [runner.name]: ownLatency,
        ...Object.fromEntries(
          [...elsewhere].flatMap(([name, all]) =>
            all[position] === undefined ? [] : [[name, all[position]]],
          ),
        ),
      };
      const refused =
        order === 0 ? [] : violations(sizes.bytes, examined.marks, ownLatency, bounds, runner.name);
      return {
        ...sizes,
        refused,
        measured: { ...examined.marks, latency, memoryBytes: examined.session.memoryBytes() },
      };
    });
  } finally {
    for (const { session } of sitting) await session.close();
  }
}

interface Examined {
  readonly candidate: Candidate;
  /** Still open. */
  readonly session: JudgedSession;
  readonly marks: Marks;
}

/** @returns those that could be run, and why others could not @throws session_failed if the first cannot */
async function examine(
  candidates: readonly Candidate[],
  questions: readonly Question[],
  {
    runner,
    onProgress,
    onAnswers,
  }: Required<Pick<JudgeOptions, "runner" | "onProgress" | "onAnswers">>,
) {
  const sitting: Examined[] = [];
  const failed = new Map<Candidate, string>();
  let reference: Float32Array[] | undefined;
  for (const candidate of candidates) {
    let session: JudgedSession | undefined;
    try {
      session = await runner.open(candidate.graph);
      const answers = await sitExam(session, questions, (done) =>
        onProgress({ step: "accuracy", candidate: candidate.name, done, of: questions.length }),
      );
      reference ??= answers;
      sitting.push({ candidate, session, marks: mark(questions, answers, reference) });
      onAnswers(candidate, answers);
    } catch (error) {
      await session?.close();
      if (reference === undefined) throw error;
      failed.set(candidate, `it does not run in ${runner.name}: ${reasonOf(error)}`);
    }
  }
  return { sitting, failed };
}

async function latencyIn(
  runner: Runner,
  candidates: readonly Candidate[],
  inputs: readonly Question["inputs"][],
  rounds: number,
  onProgress: (done: number) => void,
): Promise<Latency[]> {
  const sessions: JudgedSession[] = [];
  try {
    for (const { graph } of candidates) sessions.push(await runner.open(graph));
    return await compareLatency(sessions, inputs, rounds, onProgress);
  } finally {
    for (const session of sessions) await session.close();
  }
}

function violations(
  bytes: number,
  { lossPoints }: Marks,
  { ratio }: Latency,
  { maxLossPoints, maxBytes, maxLatencyRatio }: Bounds,
  runtime: string,
): string[] {
  return [
    ...(lossPoints > maxLossPoints
      ? [`it loses ${lossPoints.toFixed(2)} points, ${maxLossPoints} are allowed`]
      : []),
    ...(maxBytes !== undefined && bytes > maxBytes
      ? [`it has ${bytes} bytes, ${maxBytes} are allowed`]
      : []),
    ...(maxLatencyRatio !== undefined && ratio > maxLatencyRatio
      ? [`it takes ${ratio.toFixed(2)} times as long in ${runtime}, ${maxLatencyRatio} are allowed`]
      : []),
  ];
}
