// Port: decides when a free session runs its queued requests, and how many. Contains Triton's policy; adaptive-policy.ts has the
// learning one.

/**
 * - `full`: no further row fits; `shape`: the next request cannot share the run; `single`: no request can
 * - `preferred`: the batch has a preferred size; `delay`: the oldest request has reached its maximum delay
 * - `idle`: the session is free, and waiting is disabled or not worthwhile
 * - `deadline`: waiting could make a request late
 * - `throughput`: a smaller batch, because a larger one would not raise the throughput; `explore`: a larger batch, to verify
 *   this again
 * - `retry`: a single request, because its batch failed
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

/** Longest batch that could run now: the queued requests from the first on. */
export interface BatchCandidate {
  readonly nowMs: number;
  /** Rows of the first request, of the first two, and so on; at least one element. */
  readonly cumulativeRows: readonly number[];
  /** Why no later request could join the batch; undefined if one could. */
  readonly limitReason: "full" | "shape" | "single" | undefined;
  /** Arrival of the oldest request. */
  readonly oldestQueuedAtMs: number;
  /** Earliest deadline of the requests; Infinity without deadlines. */
  readonly deadlineAtMs: number;
  readonly runsInFlight: number;
  /** Maximum number of concurrent runs. */
  readonly instanceCount: number;
}

export type DispatchDecision =
  /** @property requestCount number of requests, from the first on */
  | { readonly kind: "dispatch"; readonly requestCount: number; readonly reason: DispatchReason }
  /** Decide again at `untilAtMs`, or when a request arrives or a run ends. */
  | { readonly kind: "wait"; readonly untilAtMs: number };

/** Decides for one session, whose instances are equivalent. */
export interface DispatchPolicy {
  /** Called when an instance is free and requests are queued. */
  decide(batch: BatchCandidate): DispatchDecision;
  /** Called for each arriving request. */
  recordArrival?(rows: number, nowMs: number): void;
  /** Called after each successful run. */
  recordRun?(rows: number, durationMs: number): void;
}

export interface FixedPolicyOptions {
  /** Batch sizes that are dispatched immediately; the largest possible one is chosen. */
  readonly preferredBatchRows?: readonly number[];
  /** Maximum delay of the oldest request; 0 dispatches whenever the session is free. */
  readonly maxQueueDelayMs?: number;
}

export const dispatch = (requestCount: number, reason: DispatchReason): DispatchDecision => ({
  kind: "dispatch",
  requestCount,
  reason,
});

/** Triton's dynamic batcher: `preferred_batch_size` and `max_queue_delay_microseconds` of its model configuration. */
export function createFixedPolicy({
  preferredBatchRows = [],
  maxQueueDelayMs = 0,
}: FixedPolicyOptions = {}): DispatchPolicy {
  const largestPreferred = Math.max(0, ...preferredBatchRows);

  return {
    decide({ nowMs, cumulativeRows, limitReason, oldestQueuedAtMs }) {
      const requestCount = cumulativeRows.length;
      const rows = cumulativeRows.at(-1) ?? 0;
      // This sum must equal the returned `untilAtMs`; other forms round differently.
      const isLate = maxQueueDelayMs > 0 && nowMs >= oldestQueuedAtMs + maxQueueDelayMs;
      const preferred = cumulativeRows.findLastIndex((sum) => preferredBatchRows.includes(sum)) + 1;
      if (preferred > 0 && !isLate) return dispatch(preferred, "preferred");
      if (limitReason !== undefined) return dispatch(requestCount, limitReason);
      if (isLate) return dispatch(requestCount, "delay");
      // Beyond the largest preferred size, waiting cannot reach a preferred size any more.
      if (largestPreferred > 0 && rows >= largestPreferred) return dispatch(requestCount, "full");
      return maxQueueDelayMs === 0
        ? dispatch(requestCount, "idle")
        : { kind: "wait", untilAtMs: oldestQueuedAtMs + maxQueueDelayMs };
    },
  };
}
