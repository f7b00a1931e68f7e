// A delay policy without settings: it learns how long runs take by their size, and how fast work comes.
//
// What waits for a free session goes at once, all of it: batches grow with the load by themselves, as they form while the
// session is busy, and neither holding them back nor cutting them to be in time keeps more requests within a bound
// (simulated: test/region/batching/simulate-load.ts). With two exceptions. Where more rows in one run answer no more a second,
// fewer go, so that the first need not wait for the last. And where one of several instances is free while others run, it
// waits a little, unless runs of what is at hand keep up easily with what comes: otherwise their runs end together, and the
// first to be free takes all there is.

import { createExecutionTimeEstimator } from "./execution-time-estimator.ts";
import {
  type BatchCandidate,
  type DispatchDecision,
  type DispatchPolicy,
  type DispatchReason,
  dispatch,
} from "./dispatch-policy.ts";

/** Over which arrivals are averaged. */
const RATE_WINDOW_MS = 100;
/** A size is as good as the best when it answers this share of the rows a second; then the smaller one answers sooner. */
const MIN_THROUGHPUT_RATIO = 0.98;
/** A run may take this many times its average: some 99th percentile. */
const SLOW_RUN_FACTOR = 2;
/** With several instances: how much more than what comes they must be able to answer, that none waits for company. */
const SPARE_CAPACITY_FACTOR = 2;
/** And how long they wait, of what sharing a run would save and each instance's share of it. */
const WAIT_FACTOR = 1.5;
/** Every so many runs of fewer rows than there are, more are run: what made larger runs look bad may have passed. */
const EXPLORE_INTERVAL_RUNS = 64;

export function createAdaptivePolicy(): DispatchPolicy {
  const times = createExecutionTimeEstimator();
  let rowsInWindow = 0; // decays exponentially
  let countedAtMs = -Infinity;
  let smallRuns = 0;

  const decayed = (nowMs: number) =>
    rowsInWindow * Math.exp((countedAtMs - nowMs) / RATE_WINDOW_MS);
  const estimate = (rows: number) => times.estimateMs(rows) ?? Infinity;

  /** The fewest works that are as good as the best number of them; all that are as good, if it is more than half of those. */
  function bestOf(rowsOfFirst: readonly number[]): number {
    const last = rowsOfFirst.length - 1;
    const msOf = (rows: number, index: number) =>
      (index === last ? times.optimisticEstimateMs(rows) : times.estimateMs(rows)) ?? Infinity;
    const speeds = rowsOfFirst.map(
      (rows, index) => rows / Math.max(msOf(rows, index), Number.EPSILON),
    );
    const enough = MIN_THROUGHPUT_RATIO * Math.max(...speeds);
    const fewest = speeds.findIndex((speed) => speed >= enough);
    const most = speeds.findLastIndex((speed) => speed >= enough);
    return 1 + (2 * (rowsOfFirst[fewest] ?? 0) > (rowsOfFirst[most] ?? 0) ? most : fewest);
  }

  /** For a time that grows with what as many more rows would save by sharing the run. */
  function whetherToWait(
    {
      nowMs,
      oldestQueuedAtMs: oldestAtMs,
      deadlineAtMs: dueAtMs,
      runsInFlight: running,
      instanceCount: instances,
    }: BatchCandidate,
    rows: number,
  ): DispatchReason | { readonly untilMs: number } {
    const arrivalsPerMs = decayed(nowMs) / RATE_WINDOW_MS;
    if (
      running === 0 ||
      (instances * rows) / estimate(rows) >= SPARE_CAPACITY_FACTOR * arrivalsPerMs
    )
      return "idle";
    const savedMs = Math.max(0, 2 * estimate(rows) - estimate(2 * rows));
    const untilMs = oldestAtMs + (WAIT_FACTOR * savedMs) / instances;
    if (nowMs >= untilMs) return "delay";
    return untilMs + SLOW_RUN_FACTOR * estimate(2 * rows) > dueAtMs ? "deadline" : { untilMs };
  }

  return {
    recordArrival(rows, nowMs) {
      rowsInWindow = decayed(nowMs) + rows;
      countedAtMs = nowMs;
    },

    recordRun: (rows, durationMs) => times.record(rows, durationMs),

    decide(batch): DispatchDecision {
      const { cumulativeRows: rowsOfFirst, limitReason: limit } = batch;
      const all = rowsOfFirst.length;
      const rows = rowsOfFirst.at(-1) ?? 0;
      if (times.estimateMs(rows) === undefined) return dispatch(all, limit ?? "idle");

      const best = bestOf(rowsOfFirst);
      if (best < all)
        return ++smallRuns % EXPLORE_INTERVAL_RUNS === 0
          ? dispatch(Math.min(all, 2 * best), "explore")
          : dispatch(best, "throughput");
      if (limit !== undefined) return dispatch(all, limit);
      const answer = whetherToWait(batch, rows);
      return typeof answer === "string"
        ? dispatch(all, answer)
        : { kind: "wait", untilAtMs: answer.untilMs };
    },
  };
}
