// How long sessions take, against each other: all in turn in every round, so that what else the machine does hits all.

import type { NamedTensors } from "../../core/tensor.ts";
import type { RunnerSession } from "./runner.ts";

export interface Latency {
  /** Over the rounds, each the mean of as many runs as make `MIN_MEASUREMENT_MS`. */
  readonly p50Ms: number;
  readonly p95Ms: number;
  /** Median over the rounds of this session's time by the first's in the same round. */
  readonly ratio: number;
  readonly rounds: number;
}

/** Far more than asking for it and the clock's grain. */
const MIN_MEASUREMENT_MS = 20;
const MIN_RUN_MS = 0.01;
const MAX_RUNS = 500;
const WARM_UP_RUNS = 5;

/** @param inputs are run in turn, one in each round @returns in the sessions' order */
export async function compareLatency(
  sessions: readonly RunnerSession[],
  inputs: readonly NamedTensors[],
  rounds: number,
  onProgress: (round: number) => void = () => {},
): Promise<Latency[]> {
  const [first] = inputs;
  if (first === undefined) throw new RangeError("latency needs an input");
  const slices = sessions.map(() => createLatencyMeter());
  const times = sessions.map((): number[] => []);
  for (let round = 0; round < rounds; round++) {
    const tensors = inputs[round % inputs.length] ?? first;
    for (let turn = 0; turn < sessions.length; turn++) {
      const position = (turn + round) % sessions.length; // nobody is always the first
      const [session, slice] = [sessions[position], slices[position]];
      if (session !== undefined && slice !== undefined)
        times[position]?.push(await slice((runs) => session.measureMeanMs(tensors, runs)));
    }
    onProgress(round + 1);
  }
  const reference = times[0] ?? [];
  return times.map((own) => ({
    p50Ms: quantile(own, 0.5),
    p95Ms: quantile(own, 0.95),
    ratio: quantile(
      own.map((ms, round) => ms / (reference[round] ?? Number.NaN)),
      0.5,
    ),
    rounds,
  }));
}

/**
 * Takes the mean time of as many runs as make a slice, so that it is theirs and not of asking for them. The first call finds out how
 * many, and warms up.
 */
export function createLatencyMeter(
  sliceMs = MIN_MEASUREMENT_MS,
): (meanMs: (runs: number) => Promise<number>) => Promise<number> {
  let runs: number | undefined;
  return async (meanMs) => {
    if (runs === undefined) {
      await meanMs(WARM_UP_RUNS);
      runs = Math.min(
        MAX_RUNS,
        Math.max(1, Math.ceil(sliceMs / Math.max(MIN_RUN_MS, await meanMs(WARM_UP_RUNS)))),
      );
    }
    return await meanMs(runs);
  };
}

/** The smallest value that so large a share of the values does not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const ascending = values.toSorted((a, b) => a - b);
  return ascending[Math.max(0, Math.ceil(share * ascending.length) - 1)] ?? Number.NaN;
}
