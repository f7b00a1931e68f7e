// Judges candidates for a tier by measurement in the runtime that they are for, and refuses those that are not worth it.

import { gzipSync } from "node:zlib";
import { reasonOf } from "../../core/errors.ts";
import {
  scoreLogits,
  type CandidateScore,
  type EncodedSample,
  computeLogits,
} from "./evaluation-set.ts";
import { compareLatency, type Latency } from "./latency.ts";
import type { RunnerSession, Runner } from "./runner.ts";

export interface CandidateGraph {
  readonly name: string;
  readonly graph: Uint8Array;
}

export interface AcceptanceBounds {
  /** Of accuracy, against the reference. */
  readonly maxLossPoints: number;
  readonly maxBytes?: number | undefined;
  /** By the reference's latency: 1 refuses what is slower. */
  readonly maxLatencyRatio?: number | undefined;
}

export interface EvaluateCandidatesOptions {
  /** The runtime that the tier is for. Accuracy and verdict are of it. */
  readonly runner: Runner;
  /** Others in which latency is measured as well. */
  readonly otherRunners?: readonly Runner[];
  readonly bounds: AcceptanceBounds;
  readonly rounds?: number;
  readonly onProgress?: (event: EvaluationProgress) => void;
  /** Gets the logits of each candidate that could be run, one row per question. */
  readonly onLogits?: (candidate: CandidateGraph, answers: readonly Float32Array[]) => void;
}

export type EvaluationProgress =
  | {
      readonly kind: "accuracy";
      readonly candidate: string;
      readonly done: number;
      readonly total: number;
    }
  | {
      readonly kind: "latency";
      readonly runtime: string;
      readonly done: number;
      readonly total: number;
    };

export interface CandidateEvaluation {
  readonly name: string;
  readonly bytes: number;
  readonly gzipBytes: number;
  /** Why it is refused, each with its figure; empty if it is not. */
  readonly refused: readonly string[];
  /** Absent where it could not be run: `refused` says why. */
  readonly measured?: CandidateScore & {
    /** By the runtimes' names. */
    readonly latency: Readonly<Record<string, Latency>>;
    /** Of the runtime that the tier is for, where it can tell. */
    readonly memoryBytes: number | undefined;
  };
}

const DEFAULT_ROUNDS = 40;

/**
 * @param candidates the first is the reference: what the others are compared with, and never refused
 * @throws session_failed if the reference cannot be run
 */
export async function evaluateCandidates(
  candidates: readonly CandidateGraph[],
  questions: readonly EncodedSample[],
  options: EvaluateCandidatesOptions,
): Promise<CandidateEvaluation[]> {
  const {
    runner,
    otherRunners: others = [],
    bounds,
    rounds = DEFAULT_ROUNDS,
    onProgress = () => {},
    onLogits: onAnswers = () => {},
  } = options;
  const { sitting, failed } = await scoreCandidates(candidates, questions, {
    runner,
    onProgress,
    onLogits: onAnswers,
  });
  try {
    const inputs = questions.map((question) => question.inputs);
    const progress = (runtime: string) => (done: number) =>
      onProgress({ kind: "latency", runtime, done, total: rounds });
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
        await measureLatencyIn(
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
        order === 0
          ? []
          : findBoundViolations(sizes.bytes, examined.marks, ownLatency, bounds, runner.name);
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

interface ScoredCandidate {
  readonly candidate: CandidateGraph;
  /** Still open. */
  readonly session: RunnerSession;
  readonly marks: CandidateScore;
}

/** @returns those that could be run, and why others could not @throws session_failed if the first cannot */
async function scoreCandidates(
  candidates: readonly CandidateGraph[],
  questions: readonly EncodedSample[],
  {
    runner,
    onProgress,
    onLogits: onAnswers,
  }: Required<Pick<EvaluateCandidatesOptions, "runner" | "onProgress" | "onLogits">>,
) {
  const sitting: ScoredCandidate[] = [];
  const failed = new Map<CandidateGraph, string>();
  let reference: Float32Array[] | undefined;
  for (const candidate of candidates) {
    let session: RunnerSession | undefined;
    try {
      session = await runner.open(candidate.graph);
      const answers = await computeLogits(session, questions, (done) =>
        onProgress({ kind: "accuracy", candidate: candidate.name, done, total: questions.length }),
      );
      reference ??= answers;
      sitting.push({ candidate, session, marks: scoreLogits(questions, answers, reference) });
      onAnswers(candidate, answers);
    } catch (error) {
      await session?.close();
      if (reference === undefined) throw error;
      failed.set(candidate, `it does not run in ${runner.name}: ${reasonOf(error)}`);
    }
  }
  return { sitting, failed };
}

async function measureLatencyIn(
  runner: Runner,
  candidates: readonly CandidateGraph[],
  inputs: readonly EncodedSample["inputs"][],
  rounds: number,
  onProgress: (done: number) => void,
): Promise<Latency[]> {
  const sessions: RunnerSession[] = [];
  try {
    for (const { graph } of candidates) sessions.push(await runner.open(graph));
    return await compareLatency(sessions, inputs, rounds, onProgress);
  } finally {
    for (const session of sessions) await session.close();
  }
}

function findBoundViolations(
  bytes: number,
  { lossPoints }: CandidateScore,
  { ratio }: Latency,
  { maxLossPoints, maxBytes, maxLatencyRatio }: AcceptanceBounds,
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
