// Runs a batch on its session and brings each work its answer; one by one, where they cannot have it together.

import type { Clock } from "../../../core/clock.ts";
import { EdgeTierError } from "../../../core/errors.ts";
import type { Session } from "../../../runtime/runtime.ts";
import type { BatchRun, TierRef } from "../executor.ts";
import type { QueuedRequest } from "./batch-queue.ts";
import type { DispatchReason } from "./dispatch-policy.ts";
import type { BatchMerger } from "./batch-merger.ts";

export interface UnbatchableSession {
  readonly tier: TierRef;
  readonly problem: string;
}

export interface BatchRunnerOptions {
  readonly clock: Clock;
  readonly merger: BatchMerger;
  /** A run of the session succeeded. */
  readonly onInferred: (rows: number, durationMs: number) => void;
  readonly onRun: (run: BatchRun) => void;
  /** A session's outputs turned out to forbid shared runs, or padding, which is then not tried again. */
  readonly onUnbatchable: (event: UnbatchableSession) => void;
}

/** @returns what gives the works their answers; where they ran one by one, all but the last have theirs by then */
export type BatchRunner = (
  batch: readonly QueuedRequest[],
  reason: DispatchReason,
) => Promise<() => void>;

export function createBatchRunner(
  session: Session,
  { clock, merger, onInferred: onTimed, onRun, onUnbatchable }: BatchRunnerOptions,
): BatchRunner {
  /** @returns undefined where each has to be run again alone */
  async function attempt(
    batch: readonly [QueuedRequest, ...QueuedRequest[]],
    reason: DispatchReason,
  ): Promise<(() => void) | undefined> {
    const { tier: of } = batch[0].request;
    const rows = batch.reduce((sum, one) => sum + one.rows, 0);
    const startedMs = clock.now();
    const waitedMs = batch.map((one) => startedMs - one.queuedAtMs).sort((a, b) => b - a);
    const lap = createLapTimer(clock);
    const times = { inputMs: 0, inferMs: 0, outputMs: 0 };
    let failed = true;
    try {
      const merged = merger.merge(batch.map((one) => one.request));
      times.inputMs = lap();
      const outputs = await session.run(merged.inputs).finally(() => {
        times.inferMs = lap();
        merged.release();
      });
      onTimed(rows, times.inferMs);
      const parts = merged.splitOutputs(outputs);
      times.outputMs = lap();
      if ("problem" in parts) {
        if (merger.disable(parts.kind)) onUnbatchable({ tier: of, problem: parts.problem });
        return undefined;
      }
      failed = false;
      return () => batch.forEach((one, index) => one.resolve(parts[index] ?? {}));
    } catch (error) {
      return batch.length > 1 && isRequestError(error)
        ? undefined
        : () => batch.forEach((one) => one.reject(error));
    } finally {
      onRun({
        tier: of,
        requestCount: batch.length,
        rows,
        reason,
        queueTimesMs: waitedMs,
        ...times,
        hasFailed: failed,
        startedAtMs: startedMs,
        tracedRequests: batch.flatMap(({ request: { span }, queuedAtMs }) =>
          span?.isRecording === true ? [{ span, queuedAtMs }] : [],
        ),
      });
    }
  }

  /** A second time only for one whose padding had to be given up. */
  async function alone(one: QueuedRequest): Promise<() => void> {
    return (await attempt([one], "retry")) ?? (await alone(one));
  }

  return async (batch, reason) => {
    const [first, ...others] = batch;
    let settle = () => {};
    if (first === undefined) return settle;
    const together = await attempt([first, ...others], reason);
    if (together !== undefined) return together;
    for (const one of batch) {
      settle();
      settle = one.isSettled ? () => {} : await alone(one);
    }
    return settle;
  };
}

/** @returns milliseconds since it was last called */
function createLapTimer(clock: Clock): () => number {
  let lastMs = clock.now();
  return () => {
    const beforeMs = lastMs;
    lastMs = clock.now();
    return Math.max(0, lastMs - beforeMs); // the clock may be set back
  };
}

function isRequestError(error: unknown): boolean {
  return (
    error instanceof EdgeTierError &&
    (error.code === "invalid_tensor" || error.code === "session_failed")
  );
}
