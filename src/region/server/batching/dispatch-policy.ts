// When a free session should run what waits for it, and how much of that: the port, and Triton's policy.
// The other policy learns: adaptive-policy.ts.

/**
 * - `full`: no further row fits; `shape`: the next work cannot share this run; `single`: no work can.
 * - `preferred`: a preferred size; `delay`: the oldest has waited as long as it may.
 * - `idle`: the session is free, and waiting is not allowed or not worth it.
 * - `deadline`: waiting could make one of them late.
 * - `throughput`: fewer than there are, as more in one run would answer no more a second; `explore`: more, to see whether
 *   that is still so.
 * - `retry`: by itself, since the batch it was in failed.
 */
export type DispatchReason =
  | "full"
  | "shape"
  | "single"
  | "preferred"
  | "delay"
  | "idle"
  | "deadline"
  | "throughput"
  | "explore"
  | "retry";

/** The longest batch that could run now: the works in line from the first on. */
export interface BatchCandidate {
  readonly nowMs: number;
  /** Rows of the first work, of the first two, and so on; at least one. */
  readonly cumulativeRows: readonly number[];
  /** Why no work to come could join them; undefined if one could. */
  readonly limitReason: "full" | "shape" | "single" | undefined;
  /** When the oldest of them came. */
  readonly oldestQueuedAtMs: number;
  /** When the most urgent of them must be answered; Infinity if none must. */
  readonly deadlineAtMs: number;
  /** Runs under way, and as many as there can be. */
  readonly runsInFlight: number;
  readonly instanceCount: number;
}

export type DispatchDecision =
  /** @property requestCount how many, from the first on */
  | { readonly kind: "dispatch"; readonly requestCount: number; readonly reason: DispatchReason }
  /** To ask again at `untilAtMs`, or as soon as something comes or goes. */
  | { readonly kind: "wait"; readonly untilAtMs: number };

/** Decides for one session, whose instances are alike. */
export interface DispatchPolicy {
  /** Called when an instance is free and something waits. */
  decide(batch: BatchCandidate): DispatchDecision;
  /** Work came. */
  recordArrival?(rows: number, nowMs: number): void;
  /** A run succeeded. */
  recordRun?(rows: number, durationMs: number): void;
}

export interface FixedPolicyOptions {
  /** Sizes that go at once, the largest that can be formed. */
  readonly preferredBatchRows?: readonly number[];
  /** What the oldest may wait for others to come; 0: what waits goes when the session is free. */
  readonly maxQueueDelayMs?: number;
}

export const dispatch = (requestCount: number, reason: DispatchReason): DispatchDecision => ({
  kind: "dispatch",
  requestCount,
  reason,
});

/** Triton's dynamic batcher: `preferred_batch_size` and `max_queue_delay_microseconds` of its model configuration. */
export function createFixedPolicy({
  preferredBatchRows: preferredRows = [],
  maxQueueDelayMs = 0,
}: FixedPolicyOptions = {}): DispatchPolicy {
  const largestPreferred = Math.max(0, ...preferredRows);

  return {
    decide({
      nowMs,
      cumulativeRows: rowsOfFirst,
      limitReason: limit,
      oldestQueuedAtMs: oldestAtMs,
    }) {
      const all = rowsOfFirst.length;
      const rows = rowsOfFirst.at(-1) ?? 0;
      const isLate = maxQueueDelayMs > 0 && nowMs >= oldestAtMs + maxQueueDelayMs; // the sum that it was told to wait until, as others are rounded differently
      const preferred = rowsOfFirst.findLastIndex((sum) => preferredRows.includes(sum)) + 1;
      if (preferred > 0 && !isLate) return dispatch(preferred, "preferred");
      if (limit !== undefined) return dispatch(all, limit);
      if (isLate) return dispatch(all, "delay");
      if (largestPreferred > 0 && rows >= largestPreferred) return dispatch(all, "full"); // no preferred size can come of it any more
      return maxQueueDelayMs === 0
        ? dispatch(all, "idle")
        : { kind: "wait", untilAtMs: oldestAtMs + maxQueueDelayMs };
    },
  };
}
