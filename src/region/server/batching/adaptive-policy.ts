// Dispatch policy without settings: it learns how run times depend on batch size, and how fast requests arrive.
//
// Everything that waits for a free session is dispatched immediately and together. Batches then grow with the load, because
// they form while the session is busy. Neither delaying nor splitting them keeps more requests within a latency bound
// (simulated in test/region/batching/simulate-load.ts). There are two exceptions:
// - If larger batches do not raise the throughput, fewer rows are dispatched, so that the first need not wait for the last.
// - If one of several instances is free while others run, it waits a little, unless the runs at hand easily keep up with the
//   arrivals. Otherwise the runs would end together, and the first free instance would take everything.

import {
  type BatchCandidate,
  type DispatchDecision,
  type DispatchPolicy,
  type DispatchReason,
  dispatch,
} from "./dispatch-policy.ts";
import {
  createExecutionTimeEstimator,
  type ExecutionTimeEstimator,
} from "./execution-time-estimator.ts";

/** Time constant of the average arrival rate. */
const RATE_WINDOW_MS = 100;
/** A batch size is as good as the best if it reaches this share of its rows per second; the smaller size answers sooner. */
const MIN_THROUGHPUT_RATIO = 0.98;
/** Assumed ratio of a slow run to the average, about the 99th percentile. */
const SLOW_RUN_FACTOR = 2;
/** With several instances: ratio of their throughput to the arrival rate from which none waits for a batch. */
const SPARE_CAPACITY_FACTOR = 2;
/** Waiting time as a multiple of one instance's share of the time that sharing a run saves. */
const WAIT_FACTOR = 1.5;
/** After this many reduced batches, a larger one is run, because the cause of its slowness may have passed. */
const EXPLORE_INTERVAL_RUNS = 64;

export function createAdaptivePolicy(): DispatchPolicy {
  const times = createExecutionTimeEstimator();
  let rowsInWindow = 0; // Decays exponentially.
  let countedAtMs = -Infinity;
  let smallRuns = 0;

  const decayedRows = (nowMs: number) =>
    rowsInWindow * Math.exp((countedAtMs - nowMs) / RATE_WINDOW_MS);
  const estimateMs = (rows: number) => times.estimateMs(rows) ?? Infinity;

  /** Decides whether to wait; the waiting time grows with what sharing a run with as many further rows would save. */

  function decideWait(
    { nowMs, oldestQueuedAtMs, deadlineAtMs, runsInFlight, instanceCount }: BatchCandidate,
    rows: number,
  ): DispatchReason | { readonly untilAtMs: number } {
    const arrivalsPerMs = decayedRows(nowMs) / RATE_WINDOW_MS;
    const rowsPerMs = (instanceCount * rows) / estimateMs(rows);
    if (runsInFlight === 0 || rowsPerMs >= SPARE_CAPACITY_FACTOR * arrivalsPerMs) return "idle";
    const savedMs = Math.max(0, 2 * estimateMs(rows) - estimateMs(2 * rows));
    const untilAtMs = oldestQueuedAtMs + (WAIT_FACTOR * savedMs) / instanceCount;
    if (nowMs >= untilAtMs) return "delay";
    const slowEndAtMs = untilAtMs + SLOW_RUN_FACTOR * estimateMs(2 * rows);
    return slowEndAtMs > deadlineAtMs ? "deadline" : { untilAtMs };
  }
  return {
    recordArrival(rows, nowMs) {
      rowsInWindow = decayedRows(nowMs) + rows;
      countedAtMs = nowMs;
    },

    recordRun: (rows, durationMs) => times.record(rows, durationMs),

    decide(batch): DispatchDecision {
      const { cumulativeRows, limitReason } = batch;
      const requestCount = cumulativeRows.length;
      const rows = cumulativeRows.at(-1) ?? 0;
      if (times.estimateMs(rows) === undefined)
        return dispatch(requestCount, limitReason ?? "idle");

      const best = findBestRequestCount(times, cumulativeRows);
      if (best < requestCount)
        return ++smallRuns % EXPLORE_INTERVAL_RUNS === 0
          ? dispatch(Math.min(requestCount, 2 * best), "explore")
          : dispatch(best, "throughput");
      if (limitReason !== undefined) return dispatch(requestCount, limitReason);
      const decision = decideWait(batch, rows);
      return typeof decision === "string"
        ? dispatch(requestCount, decision)
        : { kind: "wait", untilAtMs: decision.untilAtMs };
    },
  };
}

/**
 * Returns the smallest number of requests whose throughput is as good as the best. The result is the largest such
 * number if the smallest has more than half of its rows.
 */
function findBestRequestCount(
  times: ExecutionTimeEstimator,
  cumulativeRows: readonly number[],
): number {
  const last = cumulativeRows.length - 1;
  const estimateMs = (rows: number, index: number) =>
    (index === last ? times.optimisticEstimateMs(rows) : times.estimateMs(rows)) ?? Infinity;
  const throughputs = cumulativeRows.map(
    (rows, index) => rows / Math.max(estimateMs(rows, index), Number.EPSILON),
  );
  const sufficient = MIN_THROUGHPUT_RATIO * Math.max(...throughputs);
  const fewest = throughputs.findIndex((throughput) => throughput >= sufficient);
  const most = throughputs.findLastIndex((throughput) => throughput >= sufficient);
  return 1 + (2 * (cumulativeRows[fewest] ?? 0) > (cumulativeRows[most] ?? 0) ? most : fewest);
}
