// Evaluates candidate graphs for a tier by measurement in its runtime, and rejects those outside the acceptance bounds.

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
  /** Maximum loss of accuracy against the reference, in points. */
  readonly maxLossPoints: number;
  readonly maxBytes?: number | undefined;
  /** Maximum ratio to the reference's latency: 1 rejects slower candidates. */
  readonly maxLatencyRatio?: number | undefined;
}

export interface EvaluateCandidatesOptions {
  /** The tier's runtime, in which accuracy is measured and bounds are checked. */
  readonly runner: Runner;
  /** Further runtimes in which latency is measured. */
  readonly otherRunners?: readonly Runner[];
  readonly bounds: AcceptanceBounds;
  readonly rounds?: number;
  readonly onProgress?: (event: EvaluationProgress) => void;
  /** Receives the logits of each candidate that runs, one row per sample. */
  readonly onLogits?: (candidate: CandidateGraph, logits: readonly Float32Array[]) => void;
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
  /** Reasons for rejecting the candidate, each with its figure; empty if it is accepted. */
  readonly refused: readonly string[];
  /** Absent if the candidate does not run. */
  readonly measured?: CandidateScore & {
    /** Latency by runtime name. */
    readonly latency: Readonly<Record<string, Latency>>;
    /** Session memory in the tier's runtime; undefined if the runtime does not report it. */
    readonly memoryBytes: number | undefined;
  };
}

const DEFAULT_ROUNDS = 40;

/**
 * @param candidates the first is the reference for the others, and is never rejected
 * @throws session_failed if the reference does not run
 */
export async function evaluateCandidates(
  candidates: readonly CandidateGraph[],
  samples: readonly EncodedSample[],
  options: EvaluateCandidatesOptions,
): Promise<CandidateEvaluation[]> {
  const { runner, bounds, onProgress = () => {}, onLogits = () => {} } = options;
  const { scored, failures } = await scoreCandidates(candidates, samples, {
    runner,
    onProgress,
    onLogits,
  });
  try {
    const latencies = await measureLatencies(scored, samples, options);
    return candidates.map((candidate, order) => {
      const sizes = {
        name: candidate.name,
        bytes: candidate.graph.byteLength,
        gzipBytes: gzipSync(candidate.graph, { level: 9 }).byteLength,
      };
      const position = scored.findIndex((entry) => entry.candidate === candidate);
      const entry = scored[position];
      const latency = latencies[position];
      const ownLatency = latency?.[runner.name];
      if (entry === undefined || latency === undefined || ownLatency === undefined)
        return { ...sizes, refused: [failures.get(candidate) ?? "it was not evaluated"] };
      return {
        ...sizes,
        refused:
          order === 0
            ? []
            : findBoundViolations(sizes.bytes, entry.score, ownLatency, bounds, runner.name),
        measured: { ...entry.score, latency, memoryBytes: entry.session.memoryBytes() },
      };
    });
  } finally {
    for (const { session } of scored) await session.close();
  }
}

interface ScoredCandidate {
  readonly candidate: CandidateGraph;
  /** Open session in the tier's runtime. */
  readonly session: RunnerSession;
  readonly score: CandidateScore;
}

interface ScoredCandidates {
  /** Candidates that run. */
  readonly scored: ScoredCandidate[];
  /** Why the other candidates do not run. */
  readonly failures: ReadonlyMap<CandidateGraph, string>;
}

/** @throws session_failed if the first candidate does not run */
async function scoreCandidates(
  candidates: readonly CandidateGraph[],
  samples: readonly EncodedSample[],
  {
    runner,
    onProgress,
    onLogits,
  }: Required<Pick<EvaluateCandidatesOptions, "runner" | "onProgress" | "onLogits">>,
): Promise<ScoredCandidates> {
  const scored: ScoredCandidate[] = [];
  const failures = new Map<CandidateGraph, string>();
  let reference: Float32Array[] | undefined;
  for (const candidate of candidates) {
    let session: RunnerSession | undefined;
    try {
      session = await runner.open(candidate.graph);
      const logits = await computeLogits(session, samples, (done) =>
        onProgress({ kind: "accuracy", candidate: candidate.name, done, total: samples.length }),
      );
      reference ??= logits;
      scored.push({ candidate, session, score: scoreLogits(samples, logits, reference) });
      onLogits(candidate, logits);
    } catch (error) {
      await session?.close();
      if (reference === undefined) throw error;
      failures.set(candidate, `it does not run in ${runner.name}: ${reasonOf(error)}`);
    }
  }
  return { scored, failures };
}

/** @returns each candidate's latency by runtime name, in the order of `scored` */
async function measureLatencies(
  scored: readonly ScoredCandidate[],
  samples: readonly EncodedSample[],
  {
    runner,
    otherRunners = [],
    rounds = DEFAULT_ROUNDS,
    onProgress = () => {},
  }: EvaluateCandidatesOptions,
): Promise<Readonly<Record<string, Latency>>[]> {
  const inputs = samples.map((sample) => sample.inputs);
  const reportProgress = (runtime: string) => (done: number) =>
    onProgress({ kind: "latency", runtime, done, total: rounds });
  const sessions = scored.map(({ session }) => session);
  const byRuntime = new Map<string, readonly Latency[]>([
    [runner.name, await compareLatency(sessions, inputs, rounds, reportProgress(runner.name))],
  ]);
  const graphs = scored.map(({ candidate }) => candidate);
  for (const other of otherRunners)
    byRuntime.set(
      other.name,
      await measureLatencyIn(other, graphs, inputs, rounds, reportProgress(other.name)),
    );
  return scored.map((_, position) =>
    Object.fromEntries(
      [...byRuntime].flatMap(([name, latencies]) =>
        latencies[position] === undefined ? [] : [[name, latencies[position]]],
      ),
    ),
  );
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
      ? [`it loses ${lossPoints.toFixed(2)} points, above the bound of ${maxLossPoints}`]
      : []),
    ...(maxBytes !== undefined && bytes > maxBytes
      ? [`it has ${bytes} bytes, above the bound of ${maxBytes}`]
      : []),
    ...(maxLatencyRatio !== undefined && ratio > maxLatencyRatio
      ? [
          `it takes ${ratio.toFixed(2)} times as long in ${runtime}, above the bound of ${maxLatencyRatio}`,
        ]
      : []),
  ];
}
