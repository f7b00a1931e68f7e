// Scheduler of one session: queues requests and dispatches batches. The next batch forms while the instances are busy. When one
// is free, the dispatch policy decides whether the batch runs or waits for more requests.

import type { Clock } from "../../../core/clock.ts";
import type { NamedTensors } from "../../../core/tensor.ts";
import type { Session } from "../../../runtime/runtime.ts";
import type { BufferPool } from "../buffer-pool.ts";
import type { TierQueueState, BatchRun, TierRef, ExecutionRequest } from "../executor.ts";
import { type BatchMerger, createBatchMerger } from "./batch-merger.ts";
import { type BatchQueue, createBatchQueue, type QueuedRequest } from "./batch-queue.ts";
import { type BatchRunner, createBatchRunner, type UnbatchableSession } from "./batch-runner.ts";
import type { BatchCandidate, DispatchPolicy } from "./dispatch-policy.ts";
import { rowCountOf } from "./merge-inputs.ts";
import type { SchedulerConfig } from "./scheduler-config.ts";

export interface SessionSchedulerOptions {
  readonly clock: Clock;
  readonly config: SchedulerConfig;
  /** Buffers of merged inputs. */
  readonly pool: BufferPool;
  readonly onRun: (run: BatchRun) => void;
  readonly onUnbatchable: (event: UnbatchableSession) => void;
}

export interface SessionScheduler {
  /** Queues one request and resolves with its outputs. @throws as Executor */
  execute(request: ExecutionRequest): Promise<NamedTensors>;
  queueState(): TierQueueState;
}

export function createSessionScheduler(
  session: Session,
  tier: TierRef,
  { clock, config, pool, onRun, onUnbatchable }: SessionSchedulerOptions,
): SessionScheduler {
  const policy = config.createPolicy();
  const queue = createBatchQueue(clock, config.queue, () => dispatcher.dispatchAll());
  const merger = createBatchMerger(session, { ...config, pool });
  const dispatcher = createDispatcher({
    clock,
    policy,
    queue,
    collect: () => collectBatch(queue, merger, config.maxBatchRows),
    runBatch: createBatchRunner(session, {
      clock,
      merger,
      onRun,
      onUnbatchable,
      onInferred: (rows, durationMs) => policy.recordRun?.(rows, durationMs),
    }),
    instanceCount: session.concurrency ?? 1,
  });

  return {
    async execute(request) {
      const queued = queue.enqueue(request, rowCountOf(request));
      policy.recordArrival?.(queued.rows, queued.queuedAtMs);
      dispatcher.dispatchAll();
      return await queued.result;
    },

    queueState() {
      const { requestCount, rows, oldestAtMs } = queue.state();
      return {
        tier,
        requestCount,
        rows,
        oldestAgeMs: oldestAtMs === undefined ? 0 : clock.now() - oldestAtMs,
        runsInFlight: dispatcher.runsInFlight(),
      };
    },
  };
}

interface DispatcherOptions {
  readonly clock: Clock;
  readonly policy: DispatchPolicy;
  readonly queue: BatchQueue;
  readonly collect: () => CollectedBatch;
  readonly runBatch: BatchRunner;
  readonly instanceCount: number;
}

/** Starts runs as the policy decides, on as many instances as there are. */
function createDispatcher({
  clock,
  policy,
  queue,
  collect,
  runBatch,
  instanceCount,
}: DispatcherOptions) {
  let runsInFlight = 0;
  let isDispatching = false;
  let cancelWait = () => {};

  /** Starts every run that can start now. */
  function dispatchAll(): void {
    if (isDispatching) return; // The queue dropped a request during the dispatch.
    isDispatching = true;
    cancelWait();
    try {
      while (dispatchNext());
    } finally {
      isDispatching = false;
    }
  }

  /** @returns whether a run was started */
  function dispatchNext(): boolean {
    if (runsInFlight >= instanceCount) return false;
    const batch = collect();
    if (batch.requests.length === 0) return false;
    const nowMs = clock.now();
    const decision = policy.decide({ ...describeBatch(batch), nowMs, runsInFlight, instanceCount });
    if (decision.kind === "wait") {
      cancelWait = clock.setTimer(dispatchAll, Math.max(0, decision.untilAtMs - nowMs));
      return false;
    }
    const dispatched = batch.requests.slice(0, decision.requestCount);
    queue.dequeue(dispatched);
    runsInFlight++;
    void runBatch(dispatched, decision.reason).then(finish);
    return true;
  }

  function finish(settle: () => void): void {
    runsInFlight--;
    settle();
    dispatchAll(); // In the same turn, so that the session has its next batch before any answer is written.
  }

  return { dispatchAll, runsInFlight: () => runsInFlight };
}

interface CollectedBatch {
  readonly requests: readonly QueuedRequest[];
  readonly cumulativeRows: readonly number[];
  readonly limitReason: BatchCandidate["limitReason"];
}

/** Collects the longest possible batch. The order is kept, so the first request that does not fit ends it. */
function collectBatch(
  queue: BatchQueue,
  merger: BatchMerger,
  maxBatchRows: number,
): CollectedBatch {
  const requests: QueuedRequest[] = [];
  const cumulativeRows: number[] = [];
  let limitReason: BatchCandidate["limitReason"];
  let key: string | undefined;
  let rows = 0;
  for (const queued of queue.inPriorityOrder()) {
    if (requests.length === 0) key = merger.batchKey(queued.request);
    else if (merger.batchKey(queued.request) !== key) limitReason = "shape";
    else if (rows + queued.rows > maxBatchRows) limitReason = "full";
    if (limitReason !== undefined) break;
    requests.push(queued);
    cumulativeRows.push((rows += queued.rows));
    if (key === undefined) limitReason = "single";
    else if (rows >= maxBatchRows) limitReason = "full";
    if (limitReason !== undefined) break;
  }
  return { requests, cumulativeRows, limitReason };
}

const describeBatch = ({ requests, cumulativeRows, limitReason }: CollectedBatch) => ({
  cumulativeRows,
  limitReason,
  oldestQueuedAtMs: Math.min(...requests.map(({ queuedAtMs }) => queuedAtMs)),
  deadlineAtMs: Math.min(...requests.map(deadlineAtMsOf)),
});

function deadlineAtMsOf({ request, queuedAtMs }: QueuedRequest): number {
  return Math.min(
    request.expiresAtMs ?? Infinity,
    request.maxLatencyMs === undefined ? Infinity : queuedAtMs + request.maxLatencyMs,
  );
}
