// The works that wait for one session: bounded in rows, by priority, and rid of what nobody waits for at the moment it
// happens, so that it neither runs nor takes a place.

import { coreErrors } from "../../../core/common-errors.ts";
import { regionServerErrors } from "../errors.ts";
import type { Clock } from "../../../core/clock.ts";
import { type EdgeTierError } from "../../../core/errors.ts";
import type { NamedTensors } from "../../../core/tensor.ts";
import type { ExecutionRequest } from "../executor.ts";

/** As Triton's ModelQueuePolicy. */
export interface PriorityLevelPolicy {
  /** What becomes of work whose timeout passes while it waits: an error, or a place behind all others of its priority. */
  readonly timeoutAction: "reject" | "delay";
  /** How long work may wait; 0 for as long as it takes. */
  readonly defaultTimeoutMs: number;
  /** Whether a work's own `expiresAtMs` counts; it can only shorten the default, and (not so in Triton) stands without one. */
  readonly allowTimeoutOverride: boolean;
  /** Rows that may wait on one level. One work of more rows than that is taken where nothing else waits. */
  readonly maxQueueSize: number;
}

/** Of all priority levels. */
export interface QueuePolicy extends PriorityLevelPolicy {
  /** Levels from 1, the highest. */
  readonly priorityLevels: number;
  /** Of work that names no level, or none that there is. */
  readonly defaultPriority: number;
  /** What is different on a level. */
  readonly overridesByPriority?: ReadonlyMap<number, Partial<PriorityLevelPolicy>>;
}

export const DEFAULT_QUEUE_POLICY = {
  timeoutAction: "reject",
  defaultTimeoutMs: 0,
  allowTimeoutOverride: true,
  maxQueueSize: 256,
  priorityLevels: 3,
  defaultPriority: 2,
} as const satisfies QueuePolicy;

export interface QueuedRequest {
  readonly request: ExecutionRequest;
  readonly rows: number;
  readonly queuedAtMs: number;
  /** @throws request_expired, request_cancelled, also while it runs, and what it was failed with */
  readonly result: Promise<NamedTensors>;
  readonly isSettled: boolean;
  /** These do nothing where it has its answer. */
  resolve(outputs: NamedTensors): void;
  reject(error: unknown): void;
}

export interface BatchQueue {
  /** @throws queue_full; request_expired, request_cancelled for what comes too late already */
  enqueue(work: ExecutionRequest, rows: number): QueuedRequest;
  /** By priority, then arrival; what was delayed comes last in its priority. */
  inPriorityOrder(): Iterable<QueuedRequest>;
  /** These leave the queue to be run. */
  dequeue(works: readonly QueuedRequest[]): void;
  /** What waits. */
  state(): {
    readonly works: number;
    readonly rows: number;
    readonly oldestAtMs: number | undefined;
  };
}

interface PriorityLevel {
  readonly policy: PriorityLevelPolicy;
  readonly ready: Set<QueueEntry>;
  readonly delayed: Set<QueueEntry>;
  rows: number;
}

interface QueueEntry extends QueuedRequest {
  readonly level: PriorityLevel;
  /** Where it waits; undefined when it has left the queue. */
  place: Set<QueueEntry> | undefined;
  timeoutAtMs: number;
  stopTimer: () => void;
  isSettled: boolean;
}

/** @param onChange called when work left without being taken, or was delayed */
export function createBatchQueue(
  clock: Clock,
  policy: QueuePolicy,
  onChange: () => void,
): BatchQueue {
  const levels = Array.from({ length: policy.priorityLevels }, (_, index) =>
    createLevel({ ...policy, ...policy.overridesByPriority?.get(index + 1) }),
  );
  const defaultLevel = levels[policy.defaultPriority - 1] ?? createLevel(policy);

  function createEntry(
    level: PriorityLevel,
    work: ExecutionRequest,
    rows: number,
    timeoutAtMs: number,
  ): QueueEntry {
    const { promise: answer, resolve, reject } = Promise.withResolvers<NamedTensors>();
    const leave = () => drop(entry, coreErrors.requestCancelled());
    const finish = (settle: () => void) => {
      if (entry.isSettled) return;
      entry.isSettled = true;
      entry.stopTimer();
      work.signal?.removeEventListener("abort", leave);
      settle();
    };
    const entry: QueueEntry = {
      request: work,
      rows,
      queuedAtMs: clock.now(),
      result: answer,
      level,
      place: level.ready,
      timeoutAtMs,
      stopTimer: () => {},
      isSettled: false,
      resolve: (outputs) => finish(() => resolve(outputs)),
      reject: (error) => finish(() => reject(error)),
    };
    work.signal?.addEventListener("abort", leave);
    return entry;
  }

  function watch(entry: QueueEntry): void {
    entry.stopTimer();
    if (entry.timeoutAtMs !== Infinity)
      entry.stopTimer = clock.setTimer(
        () => checkTimeout(entry),
        Math.max(0, entry.timeoutAtMs - clock.now()),
      );
  }

  function checkTimeout(entry: QueueEntry): void {
    if (clock.now() < entry.timeoutAtMs) return watch(entry); // timers may be early
    if (entry.level.policy.timeoutAction === "reject")
      return drop(entry, regionServerErrors.requestExpired());
    entry.timeoutAtMs = Infinity;
    entry.stopTimer();
    entry.place?.delete(entry);
    entry.place = entry.level.delayed;
    entry.place.add(entry);
    onChange();
  }

  function remove(entry: QueueEntry): boolean {
    if (entry.place === undefined) return false;
    entry.place.delete(entry);
    entry.place = undefined;
    entry.level.rows -= entry.rows;
    return true;
  }

  function drop(entry: QueueEntry, error: EdgeTierError): void {
    const waited = remove(entry);
    entry.reject(error);
    if (waited) onChange();
  }

  return {
    enqueue(work, rows) {
      if (work.signal?.aborted === true) throw coreErrors.requestCancelled();
      const nowMs = clock.now();
      const level = levels[(work.priority ?? 0) - 1] ?? defaultLevel;
      const { timeoutAction, defaultTimeoutMs, maxQueueSize } = level.policy;
      const timeoutAtMs = Math.min(
        requestTimeoutAtMs(level, work),
        defaultTimeoutMs > 0 ? nowMs + defaultTimeoutMs : Infinity,
      );
      if (timeoutAction === "reject" && timeoutAtMs <= nowMs)
        throw regionServerErrors.requestExpired();
      if (level.rows > 0 && level.rows + rows > maxQueueSize)
        throw regionServerErrors.queueFull(maxQueueSize);
      const entry = createEntry(level, work, rows, timeoutAtMs);
      entry.place?.add(entry);
      level.rows += rows;
      watch(entry);
      return entry;
    },

    *inPriorityOrder() {
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

    dequeue(works) {
      for (const entry of works as readonly QueueEntry[]) {
        remove(entry);
        // The default bounds the waiting only; from its own moment on nobody wants the answer, not even when it is being made.
        const timeoutAtMs =
          entry.level.policy.timeoutAction === "reject"
            ? requestTimeoutAtMs(entry.level, entry.request)
            : Infinity;
        if (timeoutAtMs === entry.timeoutAtMs) continue;
        entry.timeoutAtMs = timeoutAtMs;
        watch(entry);
      }
    },

    state() {
      const waiting = levels.flatMap(({ ready, delayed }) => [...ready, ...delayed]);
      const oldestAtMs = waiting.reduce(
        (oldest, { queuedAtMs }) => Math.min(oldest, queuedAtMs),
        Infinity,
      );
      return {
        works: waiting.length,
        rows: levels.reduce((sum, level) => sum + level.rows, 0),
        oldestAtMs: waiting.length === 0 ? undefined : oldestAtMs,
      };
    },
  };
}

const createLevel = (policy: PriorityLevelPolicy): PriorityLevel => ({
  policy,
  ready: new Set(),
  delayed: new Set(),
  rows: 0,
});

function requestTimeoutAtMs(
  { policy }: PriorityLevel,
  { expiresAtMs = Infinity }: ExecutionRequest,
): number {
  return policy.allowTimeoutOverride ? expiresAtMs : Infinity;
}
