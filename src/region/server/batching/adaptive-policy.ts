// A delay policy without settings: it learns how long runs take by their size and how fast work comes, and lets a free
// session wait only where that makes it answer more, and makes nobody late.
//
// With n rows at hand that run in T(n), and the next row expected in w, waiting for it pays if (n + 1) / (w + T(n + 1)) is
// above n / T(n). Under light load it never is: then a request waits for nothing.

import { createExecutionTimes } from "./execution-times.ts";
import { type BatchView, type DelayPolicy, type DispatchReason, type Decision, run } from "./delay-policy.ts";

/** Over which arrivals are averaged. */
const RATE_WINDOW_MS = 100;
/** A size is as good as the best when it answers this share of the rows a second; then the smaller one answers sooner. */
const AS_GOOD = 0.95;
/** What waiting must promise, against the error of the estimates. */
const WORTH_WAITING = 1.1;
/** A run may take this many times its average: some 99th percentile. */
const SLOW_RUN = 2;
/** Every so many runs of fewer rows than there are, all are run: what made large runs look bad may have passed. */
const EXPLORE_EVERY = 64;

export function createAdaptivePolicy(): DelayPolicy {
  const times = createExecutionTimes();
  let rowsInWindow = 0; // decays exponentially
  let countedAtMs = -Infinity;
  let smallRuns = 0;
  /** The wait that is on: for more than these rows, until then. */
  let awaited = { rows: 0, untilMs: Infinity };

  const decayed = (nowMs: number) => rowsInWindow * Math.exp((countedAtMs - nowMs) / RATE_WINDOW_MS);
  const rowsPerMs = (rows: number) => rows / Math.max(times.estimate(rows) ?? Infinity, Number.EPSILON);

  /** The fewest works that are as good as the best number of them; all that are as good, if it is more than half of those. */
  function bestOf(rowsOfFirst: readonly number[]): number {
    const speeds = rowsOfFirst.map(rowsPerMs);
    const enough = AS_GOOD * Math.max(...speeds);
    const fewest = speeds.findIndex((speed) => speed >= enough);
    const most = speeds.findLastIndex((speed) => speed >= enough);
    return 1 + (2 * (rowsOfFirst[fewest] ?? 0) > (rowsOfFirst[most] ?? 0) ? most : fewest);
  }

  function whetherToWait({ nowMs, oldestAtMs, dueAtMs }: BatchView, rows: number): DispatchReason | { readonly untilMs: number } {
    const arrivalsPerMs = decayed(nowMs) / RATE_WINDOW_MS;
    const grownMs = times.estimate(rows + 1);
    if (grownMs === undefined || rowsPerMs(rows) >= arrivalsPerMs) return "idle"; // it keeps up as it is
    const untilNextMs = 1 / arrivalsPerMs;
    if ((rows + 1) / (untilNextMs + grownMs) < WORTH_WAITING * rowsPerMs(rows)) return "idle";
    if (nowMs + untilNextMs + SLOW_RUN * grownMs > dueAtMs) return "deadline";
    const waitsAlready = awaited.rows === rows && awaited.untilMs >= oldestAtMs;
    if (waitsAlready && nowMs >= awaited.untilMs) return "delay"; // what was expected did not come
    return { untilMs: waitsAlready ? awaited.untilMs : nowMs + untilNextMs };
  }

  return {
    arrived(rows, nowMs) {
      rowsInWindow = decayed(nowMs) + rows;
      countedAtMs = nowMs;
    },

    ran: (rows, durationMs) => times.learn(rows, durationMs),

    decide(batch): Decision {
      const { rowsOfFirst, limit } = batch;
      const all = rowsOfFirst.length;
      const rows = rowsOfFirst.at(-1) ?? 0;
      if (times.estimate(rows) === undefined) return run(all, limit ?? "idle");

      const works = bestOf(rowsOfFirst);
      if (works < all) return ++smallRuns % EXPLORE_EVERY === 0 ? run(all, "explore") : run(works, "throughput");
      if (limit !== undefined) return run(all, limit);

      const answer = whetherToWait(batch, rows);
      if (typeof answer === "string") {
        awaited = { rows: 0, untilMs: Infinity };
        return run(all, answer);
      }
      awaited = { rows, untilMs: answer.untilMs };
      return { kind: "wait", untilMs: answer.untilMs };
    },
  };
}
