// Runs a batch on its session and gives each request its answer. Requests that cannot share a run are run one by one.

import type { Clock } from "../../../core/clock.ts";
import { EdgeTierError } from "../../../core/errors.ts";
import type { Session } from "../../../runtime/runtime.ts";
import type { BatchRun, TierRef } from "../executor.ts";
import type { BatchMerger } from "./batch-merger.ts";
import type { QueuedRequest } from "./batch-queue.ts";
import type { DispatchReason } from "./dispatch-policy.ts";

export interface UnbatchableSession {
  readonly tier: TierRef;
  readonly problem: string;
}

export interface BatchRunnerOptions {
  readonly clock: Clock;
  readonly merger: BatchMerger;
  /** Called after each successful run of the session. */
  readonly onInferred: (rows: number, durationMs: number) => void;
  readonly onRun: (run: BatchRun) => void;
  /** Called when outputs turn out to forbid shared runs or padding; the session then stops using them. */
  readonly onUnbatchable: (event: UnbatchableSession) => void;
}

/** @returns a function that settles the requests; after running one by one, it settles only the last of them */
export type BatchRunner = (
  batch: readonly QueuedRequest[],
  reason: DispatchReason,
) => Promise<() => void>;

export function createBatchRunner(session: Session, options: BatchRunnerOptions): BatchRunner {
  /** Repeats the run only for a request whose padding had to be disabled. */
  async function runAlone(queued: QueuedRequest): Promise<() => void> {
    return (await runTogether(session, options, [queued], "retry")) ?? (await runAlone(queued));
  }

  return async (batch, reason) => {
    const [first, ...others] = batch;
    let settle = () => {};
    if (first === undefined) return settle;
    const settleAll = await runTogether(session, options, [first, ...others], reason);
    if (settleAll !== undefined) return settleAll;
    for (const queued of batch) {
      settle();
      settle = queued.isSettled ? () => {} : await runAlone(queued);
    }
    return settle;
  };
}

/** @returns undefined if each request must run again alone */
async function runTogether(
  session: Session,
  { clock, merger, onInferred, onRun, onUnbatchable }: BatchRunnerOptions,
  batch: readonly [QueuedRequest, ...QueuedRequest[]],
  reason: DispatchReason,
): Promise<(() => void) | undefined> {
  const { tier } = batch[0].request;
  const rows = batch.reduce((sum, queued) => sum + queued.rows, 0);
  const startedAtMs = clock.now();
  const lap = createLapTimer(clock);
  const times = { inputMs: 0, inferMs: 0, outputMs: 0 };
  let hasFailed = true;
  try {
    const merged = merger.merge(batch.map(({ request }) => request));
    times.inputMs = lap();
    const outputs = await session.run(merged.inputs).finally(() => {
      times.inferMs = lap();
      merged.release();
    });
    onInferred(rows, times.inferMs);
    const parts = merged.splitOutputs(outputs);
    times.outputMs = lap();
    if ("problem" in parts) {
      if (merger.disable(parts.kind)) onUnbatchable({ tier, problem: parts.problem });
      return undefined;
    }
    hasFailed = false;
    return () => batch.forEach((queued, index) => queued.resolve(parts[index] ?? {}));
  } catch (error) {
    return batch.length > 1 && isRequestError(error)
      ? undefined
      : () => batch.forEach((queued) => queued.reject(error));
  } finally {
    onRun({
      tier,
      requestCount: batch.length,
      rows,
      reason,
      queueTimesMs: batch.map((queued) => startedAtMs - queued.queuedAtMs).sort((a, b) => b - a),
      ...times,
      hasFailed,
      startedAtMs,
      tracedRequests: batch.flatMap(({ request: { span }, queuedAtMs }) =>
        span?.isRecording === true ? [{ span, queuedAtMs }] : [],
      ),
    });
  }
}

/** @returns a function that returns the milliseconds since its last call */
function createLapTimer(clock: Clock): () => number {
  let lastMs = clock.now();
  return () => {
    const beforeMs = lastMs;
    lastMs = clock.now();
    return Math.max(0, lastMs - beforeMs); // The clock may be set back.
  };
}

function isRequestError(error: unknown): boolean {
  return (
    error instanceof EdgeTierError &&
    (error.code === "invalid_tensor" || error.code === "session_failed")
  );
}
