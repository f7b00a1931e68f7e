// One session's queue, and the runs made of it. While its instances run, the next batch forms; when one is free, the delay
// policy says whether that goes or waits for more.

import type { Clock } from "../../../core/clock.ts";
import type { NamedTensors } from "../../../core/tensor.ts";
import type { Session } from "../../../runtime/runtime.ts";
import type { TierQueueState, BatchRun, TierRef, ExecutionRequest } from "../executor.ts";
import { createBatchQueue, type QueuedRequest } from "./batch-queue.ts";
import type { BufferPool } from "../buffer-pool.ts";
import type { BatchCandidate } from "./dispatch-policy.ts";
import type { SchedulerConfig } from "./scheduler-config.ts";
import { rowCountOf } from "./merge-inputs.ts";
import { createBatchMerger } from "./batch-merger.ts";
import { createBatchRunner, type UnbatchableSession } from "./batch-runner.ts";

export interface SessionSchedulerOptions {
  readonly clock: Clock;
  readonly config: SchedulerConfig;
  /** Of merged inputs. */
  readonly pool: BufferPool;
  readonly onRun: (run: BatchRun) => void;
  readonly onUnbatchable: (event: UnbatchableSession) => void;
}

export interface SessionScheduler {
  /** Takes one work to its answer. @throws as Executor */
  execute(work: ExecutionRequest): Promise<NamedTensors>;
  queueState(): TierQueueState;
}

export function createSessionScheduler(
  session: Session,
  of: TierRef,
  { clock, config, pool, onRun, onUnbatchable }: SessionSchedulerOptions,
): SessionScheduler {
  const { maxBatchRows } = config;
  const instances = session.concurrency ?? 1;
  const policy = config.createPolicy();
  const queue = createBatchQueue(clock, config.queue, pump);
  const merger = createBatchMerger(session, { ...config, pool });
  const runBatch = createBatchRunner(session, {
    clock,
    merger,
    onRun,
    onUnbatchable,
    onInferred: (rows, durationMs) => policy.recordRun?.(rows, durationMs),
  });
  let running = 0;
  let isPumping = false;
  let cancelWait = () => {};

  /** Starts what can be started now. */
  function pump(): void {
    if (isPumping) return; // a work was dropped on the way
    isPumping = true;
    cancelWait();
    try {
      while (dispatchNext());
    } finally {
      isPumping = false;
    }
  }

  /** @returns whether something was started */
  function dispatchNext(): boolean {
    if (running >= instances) return false;
    const { works, view } = longestBatch();
    if (view === undefined) return false;
    const decision = policy.decide(view);
    if (decision.kind === "wait") {
      cancelWait = clock.setTimer(pump, Math.max(0, decision.untilAtMs - view.nowMs));
      return false;
    }
    const batch = works.slice(0, decision.requestCount);
    queue.dequeue(batch);
    running++;
    void runBatch(batch, decision.reason).then(finish);
    return true;
  }

  function finish(settle: () => void): void {
    running--;
    settle();
    pump(); // in the same turn: the session has its next batch before any answer is written out
  }

  /** The works in line, as far as they may share a run; order is kept, so the first that may not ends the batch. */
  function longestBatch(): {
    readonly works: readonly QueuedRequest[];
    readonly view: BatchCandidate | undefined;
  } {
    const works: QueuedRequest[] = [];
    const rowsOfFirst: number[] = [];
    let limit: BatchCandidate["limitReason"];
    let key: string | undefined;
    let rows = 0;
    for (const one of queue.inPriorityOrder()) {
      const isHead = works.length === 0;
      if (isHead) key = merger.batchKey(one.request);
      else if (merger.batchKey(one.request) !== key) limit = "shape";
      else if (rows + one.rows > maxBatchRows) limit = "full";
      if (limit !== undefined) break;
      works.push(one);
      rowsOfFirst.push((rows += one.rows));
      if (key === undefined) limit = "single";
      else if (rows >= maxBatchRows) limit = "full";
      if (limit !== undefined) break;
    }
    if (works.length === 0) return { works, view: undefined };
    const oldestAtMs = Math.min(...works.map((one) => one.queuedAtMs));
    const dueAtMs = Math.min(...works.map(deadlineAtMsOf));
    return {
      works,
      view: {
        nowMs: clock.now(),
        cumulativeRows: rowsOfFirst,
        limitReason: limit,
        oldestQueuedAtMs: oldestAtMs,
        deadlineAtMs: dueAtMs,
        runsInFlight: running,
        instanceCount: instances,
      },
    };
  }

  return {
    async execute(work) {
      const queued = queue.enqueue(work, rowCountOf(work));
      policy.recordArrival?.(queued.rows, queued.queuedAtMs);
      pump();
      return await queued.result;
    },

    queueState() {
      const { works, rows, oldestAtMs } = queue.state();
      return {
        tier: of,
        requestCount: works,
        rows,
        oldestAgeMs: oldestAtMs === undefined ? 0 : clock.now() - oldestAtMs,
        runsInFlight: running,
      };
    },
  };
}

function deadlineAtMsOf({ request: work, queuedAtMs }: QueuedRequest): number {
  return Math.min(
    work.expiresAtMs ?? Infinity,
    work.maxLatencyMs === undefined ? Infinity : queuedAtMs + work.maxLatencyMs,
  );
}
