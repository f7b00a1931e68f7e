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
export interface BatchView {
  readonly nowMs: number;
  /** Rows of the first work, of the first two, and so on; at least one. */
  readonly rowsOfFirst: readonly number[];
  /** Why no work to come could join them; undefined if one could. */
  readonly limit: "full" | "shape" | "single" | undefined;
  /** When the oldest of them came. */
  readonly oldestAtMs: number;
  /** When the most urgent of them must be answered; Infinity if none must. */
  readonly dueAtMs: number;
  /** Runs under way, and as many as there can be. */
  readonly running: number;
  readonly instances: number;
}

export type Decision =
  /** @property works how many, from the first on */
  | { readonly kind: "run"; readonly works: number; readonly reason: DispatchReason }
  /** To ask again at `untilMs`, or as soon as something comes or goes. */
  | { readonly kind: "wait"; readonly untilMs: number };

/** Decides for one session, whose instances are alike. */
export interface DelayPolicy {
  /** Called when an instance is free and something waits. */
  decide(batch: BatchView): Decision;
  /** Work came. */
  arrived?(rows: number, nowMs: number): void;
  /** A run succeeded. */
  ran?(rows: number, durationMs: number): void;
}

export interface FixedPolicyOptions {
  /** Sizes that go at once, the largest that can be formed. */
  readonly preferredRows?: readonly number[];
  /** What the oldest may wait for others to come; 0: what waits goes when the session is free. */
  readonly maxQueueDelayMs?: number;
}

export const run = (works: number, reason: DispatchReason): Decision => ({
  kind: "run",
  works,
  reason,
});

/** Triton's dynamic batcher: `preferred_batch_size` and `max_queue_delay_microseconds` of its model configuration. */
export function createFixedPolicy({
  preferredRows = [],
  maxQueueDelayMs = 0,
}: FixedPolicyOptions = {}): DelayPolicy {
  const largestPreferred = Math.max(0, ...preferredRows);

  return {
    decide({ nowMs, rowsOfFirst, limit, oldestAtMs }) {
      const all = rowsOfFirst.length;
      const rows = rowsOfFirst.at(-1) ?? 0;
      const isLate = maxQueueDelayMs > 0 && nowMs >= oldestAtMs + maxQueueDelayMs; // the sum that it was told to wait until, as others are rounded differently
      const preferred = rowsOfFirst.findLastIndex((sum) => preferredRows.includes(sum)) + 1;
      if (preferred > 0 && !isLate) return run(preferred, "preferred");
      if (limit !== undefined) return run(all, limit);
      if (isLate) return run(all, "delay");
      if (largestPreferred > 0 && rows >= largestPreferred) return run(all, "full"); // no preferred size can come of it any more
      return maxQueueDelayMs === 0
        ? run(all, "idle")
        : { kind: "wait", untilMs: oldestAtMs + maxQueueDelayMs };
    },
  };
}
