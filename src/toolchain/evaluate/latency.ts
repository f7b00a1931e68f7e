// Latency comparison: measures sessions alternately, one measurement each per round, so that other load on the machine
// affects all of them.

import type { NamedTensors } from "../../core/tensor.ts";
import type { RunnerSession } from "./runner.ts";

export interface Latency {
  /** Median over the rounds. Each round's value is the mean of the runs that fill `MIN_MEASUREMENT_MS`. */
  readonly p50Ms: number;
  readonly p95Ms: number;
  /** Median over the rounds of this session's time divided by the first session's. */
  readonly ratio: number;
  readonly rounds: number;
}

/** Far longer than the overhead of a call and the resolution of the clock. */
const MIN_MEASUREMENT_MS = 20;
const MIN_RUN_MS = 0.01;
const MAX_RUNS = 500;
const WARM_UP_RUNS = 5;

/** @param inputs are used alternately, one per round @returns latencies in the order of the sessions */
export async function compareLatency(
  sessions: readonly RunnerSession[],
  inputs: readonly NamedTensors[],
  rounds: number,
  onProgress: (round: number) => void = () => {},
): Promise<Latency[]> {
  const [first] = inputs;
  if (first === undefined) throw new RangeError("latency needs an input");
  const meters = sessions.map(() => createLatencyMeter());
  const times = sessions.map((): number[] => []);
  for (let round = 0; round < rounds; round++) {
    const tensors = inputs[round % inputs.length] ?? first;
    for (let turn = 0; turn < sessions.length; turn++) {
      const position = (turn + round) % sessions.length; // Each round starts with another session.
      const [session, meter] = [sessions[position], meters[position]];
      if (session !== undefined && meter !== undefined)
        times[position]?.push(await meter((runs) => session.measureMeanMs(tensors, runs)));
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
 * Creates a meter that returns the mean time of enough runs to make the overhead of a call negligible. Its first call warms
 * up and determines the number of runs.
 */
export function createLatencyMeter(
  minMeasurementMs = MIN_MEASUREMENT_MS,
): (meanMs: (runs: number) => Promise<number>) => Promise<number> {
  let runs: number | undefined;
  return async (meanMs) => {
    if (runs === undefined) {
      await meanMs(WARM_UP_RUNS);
      runs = Math.min(
        MAX_RUNS,
        Math.max(1, Math.ceil(minMeasurementMs / Math.max(MIN_RUN_MS, await meanMs(WARM_UP_RUNS)))),
      );
    }
    return await meanMs(runs);
  };
}

/** Returns the smallest value that at least a share of the values does not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const ascending = values.toSorted((a, b) => a - b);
  return ascending[Math.max(0, Math.ceil(share * ascending.length) - 1)] ?? Number.NaN;
}
