// The works that wait for one session: bounded in rows, by priority, and rid of what nobody waits for at the moment it
// happens, so that it neither runs nor takes a place.

import type { Clock } from "../../../core/clock.ts";
import { type EdgeTierError, errors } from "../../../core/errors.ts";
import type { NamedTensors } from "../../../core/tensor.ts";
import type { Work } from "../executor.ts";

/** As Triton's queue policy and priority levels (its model configuration: ModelQueuePolicy, ModelDynamicBatching). */
export interface QueuePolicy {
  /** What becomes of work whose timeout passes while it waits: an error, or a place behind all others of its priority. */
  readonly timeoutAction: "reject" | "delay";
  /** How long work may wait; 0 for as long as it takes. */
  readonly defaultTimeoutMs: number;
  /** Whether a work's own `expiresAtMs` counts; it can only shorten the default. */
  readonly allowTimeoutOverride: boolean;
  /** Rows that may wait. One work of more rows than that is taken where nothing else waits. */
  readonly maxQueueSize: number;
  /** Levels from 1, the highest. */
  readonly priorityLevels: number;
  /** Of work that names no level, or none that there is. */
  readonly defaultPriority: number;
}

export const DEFAULT_QUEUE_POLICY: QueuePolicy = {
  timeoutAction: "reject",
  defaultTimeoutMs: 0,
  allowTimeoutOverride: true,
  maxQueueSize: 256,
  priorityLevels: 3,
  defaultPriority: 2,
};

export interface QueuedWork {
  readonly work: Work;
  readonly rows: number;
  /** Works of the same key may share a run; undefined for one that runs by itself. */
  readonly batchKey: string | undefined;
  readonly queuedAtMs: number;
  /** @throws request_expired, request_cancelled, also while it runs, and what it was failed with */
  readonly answer: Promise<NamedTensors>;
  readonly isAnswered: boolean;
  /** These do nothing where it has its answer. */
  resolve(outputs: NamedTensors): void;
  reject(error: unknown): void;
}

export interface BatchQueue {
  /** @throws queue_full; request_expired, request_cancelled for what comes too late already */
  add(work: Work, rows: number, batchKey: string | undefined): QueuedWork;
  /** By priority, then arrival; what was delayed comes last in its priority. */
  inOrder(): Iterable<QueuedWork>;
  /** These leave the queue to be run. */
  take(works: readonly QueuedWork[]): void;
}

interface Entry extends QueuedWork {
  /** Where it waits; undefined when it has left the queue. */
  place: Set<Entry> | undefined;
  readonly behind: Set<Entry>;
  timeoutAtMs: number;
  stopTimer: () => void;
  isAnswered: boolean;
}

/** @param onChange called when work left without being taken, or was delayed */
export function createBatchQueue(clock: Clock, policy: QueuePolicy, onChange: () => void): BatchQueue {
  const { timeoutAction, defaultTimeoutMs, allowTimeoutOverride, maxQueueSize, priorityLevels, defaultPriority } = policy;
  const levels = Array.from({ length: priorityLevels }, () => ({ ready: new Set<Entry>(), delayed: new Set<Entry>() }));
  let waitingRows = 0;

  const levelOf = (priority: number | undefined) => levels[(priority ?? defaultPriority) - 1] ?? levels[defaultPriority - 1] ?? levels[0];
  const ownTimeoutAtMs = (work: Work) => (allowTimeoutOverride ? (work.expiresAtMs ?? Infinity) : Infinity);

  function createEntry(work: Work, rows: number, batchKey: string | undefined, timeoutAtMs: number): Entry {
    const { promise: answer, resolve, reject } = Promise.withResolvers<NamedTensors>();
    const level = levelOf(work.priority) ?? { ready: new Set(), delayed: new Set() };
    const leave = () => drop(entry, errors.requestCancelled());
    const finish = (settle: () => void) => {
      if (entry.isAnswered) return;
      entry.isAnswered = true;
      entry.stopTimer();
      work.signal?.removeEventListener("abort", leave);
      settle();
    };
    const entry: Entry = {
      work,
      rows,
      batchKey,
      queuedAtMs: clock.now(),
      answer,
      place: level.ready,
      behind: level.delayed,
      timeoutAtMs,
      stopTimer: () => {},
      isAnswered: false,
      resolve: (outputs) => finish(() => resolve(outputs)),
      reject: (error) => finish(() => reject(error)),
    };
    work.signal?.addEventListener("abort", leave);
    return entry;
  }

  function watch(entry: Entry): void {
    entry.stopTimer();
    if (entry.timeoutAtMs !== Infinity) entry.stopTimer = clock.setTimer(() => checkTimeout(entry), Math.max(0, entry.timeoutAtMs - clock.now()));
  }

  function checkTimeout(entry: Entry): void {
    if (clock.now() < entry.timeoutAtMs) return watch(entry); // timers may be early
    if (timeoutAction === "reject") return drop(entry, errors.requestExpired());
    entry.timeoutAtMs = Infinity;
    entry.stopTimer();
    entry.place?.delete(entry);
    entry.place = entry.behind;
    entry.behind.add(entry);
    onChange();
  }

  function remove(entry: Entry): boolean {
    if (entry.place === undefined) return false;
    entry.place.delete(entry);
    entry.place = undefined;
    waitingRows -= entry.rows;
    return true;
  }

  function drop(entry: Entry, error: EdgeTierError): void {
    const waited = remove(entry);
    entry.reject(error);
    if (waited) onChange();
  }

  return {
    add(work, rows, batchKey) {
      if (work.signal?.aborted === true) throw errors.requestCancelled();
      const nowMs = clock.now();
      const timeoutAtMs = Math.min(ownTimeoutAtMs(work), defaultTimeoutMs > 0 ? nowMs + defaultTimeoutMs : Infinity);
      if (timeoutAction === "reject" && timeoutAtMs <= nowMs) throw errors.requestExpired();
      if (waitingRows > 0 && waitingRows + rows > maxQueueSize) throw errors.queueFull(maxQueueSize);
      const entry = createEntry(work, rows, batchKey, timeoutAtMs);
      entry.place?.add(entry);
      waitingRows += rows;
      watch(entry);
      return entry;
    },

    *inOrder() {
      const nowMs = clock.now();
      for (const { ready, delayed } of levels) {
        for (const waiting of [ready, delayed]) {
          for (const entry of waiting) {
            if (nowMs < entry.timeoutAtMs) yield entry;
            else checkTimeout(entry); // its timer is late
          }
        }
      }
    },

    take(works) {
      for (const entry of works as readonly Entry[]) {
        remove(entry);
        // The default bounds the waiting only; from its own moment on nobody wants the answer, not even when it is being made.
        const timeoutAtMs = timeoutAction === "reject" ? ownTimeoutAtMs(entry.work) : Infinity;
        if (timeoutAtMs === entry.timeoutAtMs) continue;
        entry.timeoutAtMs = timeoutAtMs;
        watch(entry);
      }
    },
  };
}
