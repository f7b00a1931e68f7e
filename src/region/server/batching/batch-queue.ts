// Queue of one session: bounded in rows and ordered by priority. Expired and cancelled requests leave it immediately, so they
// neither run nor take space.

import type { Clock } from "../../../core/clock.ts";
import { coreErrors } from "../../../core/common-errors.ts";
import { type EdgeTierError } from "../../../core/errors.ts";
import type { NamedTensors } from "../../../core/tensor.ts";
import { regionServerErrors } from "../errors.ts";
import type { ExecutionRequest } from "../executor.ts";

/** Policy of one priority level, as Triton's ModelQueuePolicy. */
export interface PriorityLevelPolicy {
  /** Effect of a timeout in the queue: an error, or a place behind all others of the same priority. */
  readonly timeoutAction: "reject" | "delay";
  /** Maximum queue time; 0 disables it. */
  readonly defaultTimeoutMs: number;
  /** Whether a request's `expiresAtMs` counts. It can only shorten the default and, unlike in Triton, applies without one. */
  readonly allowTimeoutOverride: boolean;
  /** Maximum number of queued rows per level. A single larger request is accepted by an empty level. */
  readonly maxQueueSize: number;
}

/** Policy of all priority levels. */
export interface QueuePolicy extends PriorityLevelPolicy {
  /** Levels from 1, the highest. */
  readonly priorityLevels: number;
  /** Level of requests that name no level, or an unknown one. */
  readonly defaultPriority: number;
  /** Settings that differ on a level. */
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
  /** @throws request_expired, request_cancelled, even during the run; and the error it was rejected with */
  readonly result: Promise<NamedTensors>;
  readonly isSettled: boolean;
  /** `resolve` and `reject` have no effect on a settled request. */
  resolve(outputs: NamedTensors): void;
  reject(error: unknown): void;
}

export interface BatchQueue {
  /** @throws queue_full; request_expired, request_cancelled if the request is already too late */
  enqueue(request: ExecutionRequest, rows: number): QueuedRequest;
  /** Iterates by priority, then arrival; delayed requests come last in their priority. */
  inPriorityOrder(): Iterable<QueuedRequest>;
  /** Removes requests that are about to run. */
  dequeue(requests: readonly QueuedRequest[]): void;
  state(): QueueState;
}

export interface QueueState {
  readonly requestCount: number;
  readonly rows: number;
  /** Undefined if nothing is queued. */
  readonly oldestAtMs: number | undefined;
}

interface PriorityLevel {
  readonly policy: PriorityLevelPolicy;
  readonly ready: Set<QueueEntry>;
  readonly delayed: Set<QueueEntry>;
  rows: number;
}

interface QueueEntry extends QueuedRequest {
  readonly level: PriorityLevel;
  /** Set that contains the entry; undefined after it has left the queue. */
  place: Set<QueueEntry> | undefined;
  timeoutAtMs: number;
  stopTimer: () => void;
  isSettled: boolean;
}

/** @param onChange called when a request left without being dequeued, or was delayed */
export function createBatchQueue(
  clock: Clock,
  policy: QueuePolicy,
  onChange: () => void,
): BatchQueue {
  const levels = Array.from({ length: policy.priorityLevels }, (_, index) =>
    createLevel({ ...policy, ...policy.overridesByPriority?.get(index + 1) }),
  );
  const defaultLevel = levels[policy.defaultPriority - 1] ?? createLevel(policy);

  const timeouts = createQueueTimeouts(clock, onChange);

  return {
    enqueue(request, rows) {
      if (request.signal?.aborted === true) throw coreErrors.requestCancelled();
      const nowMs = clock.now();
      const level = levels[(request.priority ?? 0) - 1] ?? defaultLevel;
      const { timeoutAction, defaultTimeoutMs, maxQueueSize } = level.policy;
      const timeoutAtMs = Math.min(
        requestTimeoutAtMs(level, request),
        defaultTimeoutMs > 0 ? nowMs + defaultTimeoutMs : Infinity,
      );
      if (timeoutAction === "reject" && timeoutAtMs <= nowMs)
        throw regionServerErrors.requestExpired();
      if (level.rows > 0 && level.rows + rows > maxQueueSize)
        throw regionServerErrors.queueFull(maxQueueSize);
      const entry = createEntry({ level, request, rows, timeoutAtMs, queuedAtMs: nowMs }, () =>
        timeouts.drop(entry, coreErrors.requestCancelled()),
      );
      entry.place?.add(entry);
      level.rows += rows;
      timeouts.watch(entry);
      return entry;
    },

    *inPriorityOrder() {
      const nowMs = clock.now();
      for (const { ready, delayed } of levels) {
        for (const waiting of [ready, delayed]) {
          for (const entry of waiting) {
            if (nowMs < entry.timeoutAtMs) yield entry;
            else timeouts.check(entry); // Its timer has not fired yet.
          }
        }
      }
    },

    dequeue(requests) {
      for (const entry of requests as readonly QueueEntry[]) {
        remove(entry);
        // The default timeout limits only the queue time; the request's own deadline also applies during the run.
        const timeoutAtMs =
          entry.level.policy.timeoutAction === "reject"
            ? requestTimeoutAtMs(entry.level, entry.request)
            : Infinity;
        if (timeoutAtMs === entry.timeoutAtMs) continue;
        entry.timeoutAtMs = timeoutAtMs;
        timeouts.watch(entry);
      }
    },

    state: () => describeQueue(levels),
  };
}

function describeQueue(levels: readonly PriorityLevel[]): QueueState {
  const waiting = levels.flatMap(({ ready, delayed }) => [...ready, ...delayed]);
  const oldestAtMs = waiting.reduce(
    (oldest, { queuedAtMs }) => Math.min(oldest, queuedAtMs),
    Infinity,
  );
  return {
    requestCount: waiting.length,
    rows: levels.reduce((sum, level) => sum + level.rows, 0),
    oldestAtMs: waiting.length === 0 ? undefined : oldestAtMs,
  };
}

/** Drops or delays entries whose timeout passes. */
function createQueueTimeouts(clock: Clock, onChange: () => void) {
  function watch(entry: QueueEntry): void {
    entry.stopTimer();
    if (entry.timeoutAtMs !== Infinity)
      entry.stopTimer = clock.setTimer(
        () => check(entry),
        Math.max(0, entry.timeoutAtMs - clock.now()),
      );
  }

  function check(entry: QueueEntry): void {
    if (clock.now() < entry.timeoutAtMs) return watch(entry); // Timers may fire early.
    if (entry.level.policy.timeoutAction === "reject")
      return drop(entry, regionServerErrors.requestExpired());
    entry.timeoutAtMs = Infinity;
    entry.stopTimer();
    entry.place?.delete(entry);
    entry.place = entry.level.delayed;
    entry.place.add(entry);
    onChange();
  }

  function drop(entry: QueueEntry, error: EdgeTierError): void {
    const wasQueued = remove(entry);
    entry.reject(error);
    if (wasQueued) onChange();
  }

  return { watch, check, drop };
}

/** @returns whether the entry was in the queue */
function remove(entry: QueueEntry): boolean {
  if (entry.place === undefined) return false;
  entry.place.delete(entry);
  entry.place = undefined;
  entry.level.rows -= entry.rows;
  return true;
}

function createEntry(
  fields: Pick<QueueEntry, "level" | "request" | "rows" | "timeoutAtMs" | "queuedAtMs">,
  cancel: () => void,
): QueueEntry {
  const { level, request } = fields;
  const { promise: result, resolve, reject } = Promise.withResolvers<NamedTensors>();
  const finish = (settle: () => void) => {
    if (entry.isSettled) return;
    entry.isSettled = true;
    entry.stopTimer();
    request.signal?.removeEventListener("abort", cancel);
    settle();
  };
  const entry: QueueEntry = {
    ...fields,
    result,
    place: level.ready,
    stopTimer: () => {},
    isSettled: false,
    resolve: (outputs) => finish(() => resolve(outputs)),
    reject: (error) => finish(() => reject(error)),
  };
  request.signal?.addEventListener("abort", cancel);
  return entry;
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
