// Calls that are sent at their scheduled moments, whether or not earlier ones were answered, and measured from those moments: a
// stall then costs every call that fell into it (no coordinated omission). And the closed loop, which finds what a server can do.

import type { Reply } from "./http-sender.ts";
import { type Pace, pace as paceByThread } from "./pacer.ts";

/** Told by a call's position in the schedule. */
export interface LoopEvents {
  /** @param lateMs how far behind its schedule the generator was */
  sent(index: number, lateMs: number): void;
  /** @param latencyMs since it was due, as for `failed` */
  answered(index: number, latencyMs: number, reply: Reply): void;
  failed(index: number, latencyMs: number, error: unknown): void;
}

export interface OpenLoopOptions {
  /** Ends it at once; calls that are running then are told no more. */
  readonly signal?: AbortSignal;
  readonly pace?: Pace;
  /** Of the time that `pace` goes by. */
  readonly nowMs?: () => number;
}

/**
 * @param dueMs from the beginning, ascending
 * @returns when all calls have ended: how long that took from the beginning
 */
export async function openLoop(
  dueMs: Float64Array,
  send: (index: number) => Promise<Reply>,
  events: LoopEvents,
  options: OpenLoopOptions = {},
): Promise<number> {
  const { signal, pace = paceByThread, nowMs = () => performance.now() } = options;
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  let beganAtMs = nowMs();
  let running = 0;
  let isPaced = false;
  const sinceDueMs = (index: number) => nowMs() - beganAtMs - (dueMs[index] ?? Number.NaN);
  const settled = (tell: () => void) => {
    if (signal?.aborted !== true) tell();
    if (--running === 0 && isPaced) end();
  };
  signal?.addEventListener("abort", () => end(), { once: true });
  const begins = (atMs: number) => void (beganAtMs = atMs);
  const due = (index: number) => {
    running++;
    events.sent(index, sinceDueMs(index));
    send(index).then(
      (reply) => settled(() => events.answered(index, sinceDueMs(index), reply)),
      (error: unknown) => settled(() => events.failed(index, sinceDueMs(index), error)),
    );
  };
  await pace(dueMs, { onStart: begins, onDue: due }, signal);
  isPaced = true;
  if (running === 0 || signal?.aborted === true) end();
  await ended;
  return Math.max(0, nowMs() - beganAtMs);
}

export interface ClosedLoopOptions {
  readonly concurrency: number;
  readonly durationSeconds: number;
  readonly signal?: AbortSignal;
}

/** Callers of whom each sends its next call when its last is answered. @returns calls a second */
export async function closedLoop(
  call: () => Promise<void>,
  { concurrency: callers, durationSeconds: seconds, signal }: ClosedLoopOptions,
): Promise<number> {
  const startedAtMs = performance.now();
  const endAtMs = startedAtMs + seconds * 1_000;
  let done = 0;
  const caller = async () => {
    for (; performance.now() < endAtMs; done++) {
      if (signal?.aborted === true) return;
      await call();
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return (done * 1_000) / (performance.now() - startedAtMs);
}
