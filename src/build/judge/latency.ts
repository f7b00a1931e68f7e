// How long sessions take, against each other: all in turn in every round, so that what else the machine does hits all.

import type { NamedTensors } from "../../core/tensor.ts";
import type { JudgedSession } from "./runner.ts";

export interface Latency {
  /** Over the rounds, each the mean of as many runs as make `SLICE_MS`. */
  readonly p50Ms: number;
  readonly p95Ms: number;
  /** Median over the rounds of this session's time by the first's in the same round. */
  readonly ratio: number;
  readonly rounds: number;
}

/** Far more than asking for it and the clock's grain. */
const SLICE_MS = 20;
const MAX_RUNS = 500;
const WARM_UP_RUNS = 5;

/** @param inputs are run in turn, one in each round @returns in the sessions' order */
export async function compareLatency(sessions: readonly JudgedSession[], inputs: readonly NamedTensors[], rounds: number, onProgress: (round: number) => void = () => {}): Promise<Latency[]> {
  const [first] = inputs;
  if (first === undefined) throw new RangeError("latency needs an input");
  const runs: number[] = [];
  for (const session of sessions) {
    await session.meanMs(first, WARM_UP_RUNS);
    runs.push(Math.min(MAX_RUNS, Math.max(1, Math.ceil(SLICE_MS / Math.max(0.01, await session.meanMs(first, WARM_UP_RUNS))))));
  }
  const times = sessions.map((): number[] => []);
  for (let round = 0; round < rounds; round++) {
    const tensors = inputs[round % inputs.length] ?? first;
    for (let turn = 0; turn < sessions.length; turn++) {
      const position = (turn + round) % sessions.length; // nobody is always the first
      const session = sessions[position];
      if (session !== undefined) times[position]?.push(await session.meanMs(tensors, runs[position] ?? 1));
    }
    onProgress(round + 1);
  }
  const reference = times[0] ?? [];
  return times.map((own) => ({
    p50Ms: quantile(own, 0.5),
    p95Ms: quantile(own, 0.95),
    ratio: quantile(own.map((ms, round) => ms / (reference[round] ?? Number.NaN)), 0.5),
    rounds,
  }));
}

/** The smallest value that so large a share of the values does not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const ascending = values.toSorted((a, b) => a - b);
  return ascending[Math.max(0, Math.ceil(share * ascending.length) - 1)] ?? Number.NaN;
}
