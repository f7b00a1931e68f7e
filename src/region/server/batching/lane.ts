// One session's queue, and the runs made of it. While it runs, the next batch forms; when it is free, the delay policy says
// whether that goes or waits for more.

import type { Clock } from "../../../core/clock.ts";
import { EdgeTierError } from "../../../core/errors.ts";
import type { NamedTensors } from "../../../core/tensor.ts";
import type { Session } from "../../../runtime/runtime.ts";
import type { Work } from "../executor.ts";
import { createBatchQueue, type QueuedWork, type QueuePolicy } from "./batch-queue.ts";
import type { BufferPool } from "./buffer-pool.ts";
import type { BatchView, DelayPolicy, DispatchReason } from "./delay-policy.ts";
import { batchKeyOf, merge, misfitOf, rowsOf, split } from "./merge.ts";

export interface Dispatch {
  readonly session: Session;
  readonly works: number;
  readonly rows: number;
  readonly reason: DispatchReason;
  /** What the oldest of them waited. */
  readonly waitedMs: number;
}

export interface Unbatchable {
  readonly session: Session;
  readonly problem: string;
}

export interface LaneOptions {
  readonly clock: Clock;
  readonly policy: DelayPolicy;
  /** Of merged inputs. */
  readonly pool: BufferPool;
  readonly maxBatchRows: number;
  readonly queue: QueuePolicy;
  readonly instances: number;
  readonly onDispatch: (dispatch: Dispatch) => void;
  readonly onUnbatchable: (event: Unbatchable) => void;
}

/** Takes one work to its answer. @throws as Executor */
export type Lane = (work: Work) => Promise<NamedTensors>;

export function createLane(session: Session, options: LaneOptions): Lane {
  const { clock, policy, pool, maxBatchRows, instances, onDispatch, onUnbatchable } = options;
  const queue = createBatchQueue(clock, options.queue, pump);
  let isBatchable = true;
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
    const rows = view.rowsOfFirst[decision.works - 1] ?? 0;
    queue.take(batch);
    void start(batch, rows);
    onDispatch({ session, works: batch.length, rows, reason: decision.reason, waitedMs: view.nowMs - oldestOf(batch) });
    return true;
  }

  /** The works in line, as far as they may share a run; order is kept, so the first that may not ends the batch. */
  function longestBatch(): { readonly works: readonly QueuedWork[]; readonly view: BatchView | undefined } {
    const works: QueuedWork[] = [];
    const rowsOfFirst: number[] = [];
    let limit: BatchView["limit"];
    let rows = 0;
    for (const one of queue.inOrder()) {
      const [head] = works;
      if (head !== undefined && (!isBatchable || one.batchKey === undefined || one.batchKey !== head.batchKey)) limit = "shape";
      else if (head !== undefined && rows + one.rows > maxBatchRows) limit = "full";
      if (limit !== undefined) break;
      works.push(one);
      rowsOfFirst.push((rows += one.rows));
    }
    const [head] = works;
    if (head === undefined) return { works, view: undefined };
    if (rows >= maxBatchRows) limit = "full";
    else if (!isBatchable || head.batchKey === undefined) limit = "shape";
    return { works, view: { nowMs: clock.now(), rowsOfFirst, limit, oldestAtMs: oldestOf(works), dueAtMs: Math.min(...works.map(dueAtMsOf)) } };
  }

  async function start(batch: readonly QueuedWork[], rows: number): Promise<void> {
    running++;
    const settle = batch.length > 1 ? await runTogether(batch, rows) : await runOneByOne(batch);
    running--;
    settle();
    pump(); // in the same turn: the session has its next batch before any answer is written out
  }

  async function timed(inputs: NamedTensors, rows: number): Promise<NamedTensors> {
    const startedMs = clock.now();
    const outputs = await session.run(inputs);
    policy.ran?.(rows, clock.now() - startedMs);
    return outputs;
  }

  /** @returns what gives the work its answer */
  async function runAlone(one: QueuedWork): Promise<() => void> {
    try {
      const outputs = await timed(one.work.inputs, one.rows);
      return () => one.resolve(outputs);
    } catch (error) {
      return () => one.reject(error);
    }
  }

  async function runTogether(batch: readonly QueuedWork[], rows: number): Promise<() => void> {
    try {
      const merged = merge(batch.map((one) => one.work), pool);
      const outputs = await timed(merged.inputs, rows).finally(merged.release);
      const problem = misfitOf(outputs, rows);
      if (problem === undefined) {
        const parts = split(outputs, batch.map((one) => one.rows));
        return () => batch.forEach((one, index) => one.resolve(parts[index] ?? {}));
      }
      if (isBatchable) onUnbatchable({ session, problem });
      isBatchable = false;
    } catch (error) {
      if (!mayBeOneWorksFault(error)) return () => batch.forEach((one) => one.reject(error));
    }
    return await runOneByOne(batch);
  }

  /** All but the last get their answers on the way. */
  async function runOneByOne(batch: readonly QueuedWork[]): Promise<() => void> {
    let settle = () => {};
    for (const one of batch) {
      settle();
      settle = one.isAnswered ? () => {} : await runAlone(one);
    }
    return settle;
  }

  return async (work) => {
    const queued = queue.add(work, rowsOf(work), isBatchable ? batchKeyOf(work) : undefined);
    policy.arrived?.(queued.rows, queued.queuedAtMs);
    pump();
    return await queued.answer;
  };
}

function oldestOf(works: readonly QueuedWork[]): number {
  return Math.min(...works.map((one) => one.queuedAtMs));
}

function dueAtMsOf({ work, queuedAtMs }: QueuedWork): number {
  return Math.min(work.expiresAtMs ?? Infinity, work.latencyBoundMs === undefined ? Infinity : queuedAtMs + work.latencyBoundMs);
}

function mayBeOneWorksFault(error: unknown): boolean {
  return error instanceof EdgeTierError && (error.code === "invalid_tensor" || error.code === "session_failed");
}
