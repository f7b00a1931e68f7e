// One session's queue, and the runs made of it. While its instances run, the next batch forms; when one is free, the delay
// policy says whether that goes or waits for more.

import type { Clock } from "../../../core/clock.ts";
import type { NamedTensors } from "../../../core/tensor.ts";
import type { Session } from "../../../runtime/runtime.ts";
import type { QueueState, Run, TierName, Work } from "../executor.ts";
import { createBatchQueue, type QueuedWork } from "./batch-queue.ts";
import type { BufferPool } from "../buffer-pool.ts";
import type { BatchView } from "./delay-policy.ts";
import type { LaneConfig } from "./lane-config.ts";
import { rowsOf } from "./merge.ts";
import { createMerger } from "./merger.ts";
import { createBatchRunner, type Unbatchable } from "./run-batch.ts";

export interface LaneOptions {
  readonly clock: Clock;
  readonly config: LaneConfig;
  /** Of merged inputs. */
  readonly pool: BufferPool;
  readonly onRun: (run: Run) => void;
  readonly onUnbatchable: (event: Unbatchable) => void;
}

export interface Lane {
  /** Takes one work to its answer. @throws as Executor */
  execute(work: Work): Promise<NamedTensors>;
  state(): QueueState;
}

export function createLane(
  session: Session,
  of: TierName,
  { clock, config, pool, onRun, onUnbatchable }: LaneOptions,
): Lane {
  const { maxBatchRows } = config;
  const instances = session.concurrency ?? 1;
  const policy = config.createPolicy();
  const queue = createBatchQueue(clock, config.queue, pump);
  const merger = createMerger(session, { ...config, pool });
  const runBatch = createBatchRunner(session, {
    clock,
    merger,
    onRun,
    onUnbatchable,
    onTimed: (rows, durationMs) => policy.ran?.(rows, durationMs),
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
      cancelWait = clock.setTimer(pump, Math.max(0, decision.untilMs - view.nowMs));
      return false;
    }
    const batch = works.slice(0, decision.works);
    queue.take(batch);
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
    readonly works: readonly QueuedWork[];
    readonly view: BatchView | undefined;
  } {
    const works: QueuedWork[] = [];
    const rowsOfFirst: number[] = [];
    let limit: BatchView["limit"];
    let key: string | undefined;
    let rows = 0;
    for (const one of queue.inOrder()) {
      const isHead = works.length === 0;
      if (isHead) key = merger.keyOf(one.work);
      else if (merger.keyOf(one.work) !== key) limit = "shape";
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
    const dueAtMs = Math.min(...works.map(dueAtMsOf));
    return {
      works,
      view: { nowMs: clock.now(), rowsOfFirst, limit, oldestAtMs, dueAtMs, running, instances },
    };
  }

  return {
    async execute(work) {
      const queued = queue.add(work, rowsOf(work));
      policy.arrived?.(queued.rows, queued.queuedAtMs);
      pump();
      return await queued.answer;
    },

    state() {
      const { works, rows, oldestAtMs } = queue.state();
      return {
        of,
        works,
        rows,
        ageMs: oldestAtMs === undefined ? 0 : clock.now() - oldestAtMs,
        running,
      };
    },
  };
}

function dueAtMsOf({ work, queuedAtMs }: QueuedWork): number {
  return Math.min(
    work.expiresAtMs ?? Infinity,
    work.latencyBoundMs === undefined ? Infinity : queuedAtMs + work.latencyBoundMs,
  );
}
