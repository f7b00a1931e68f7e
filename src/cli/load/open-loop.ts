// Open loop: sends calls at their scheduled times, whether or not earlier ones were answered, and measures latency from there.
// A stall therefore counts for every call that it delays (no coordinated omission). The closed loop estimates capacity.

import type { Reply } from "./http-sender.ts";
import { type Pace, pace as paceByThread } from "./pacer.ts";

/** Events of a loop. Calls are identified by their position in the schedule. */
export interface LoopEvents {
  /** @param lagMs delay of the generator behind the schedule */
  sent(index: number, lagMs: number): void;
  /** @param latencyMs time since the call was due, as for `failed` */
  answered(index: number, latencyMs: number, reply: Reply): void;
  failed(index: number, latencyMs: number, error: unknown): void;
}

export interface OpenLoopOptions {
  /** Ends the loop immediately. Calls in flight emit no more events. */
  readonly signal?: AbortSignal;
  readonly pace?: Pace;
  /** Clock of `pace`. */
  readonly nowMs?: () => number;
}

/**
 * Runs an open loop until all calls have ended. Returns its duration in milliseconds.
 * @param dueMs ascending due times from the start
 */
export async function openLoop(
  dueMs: Float64Array,
  send: (index: number) => Promise<Reply>,
  events: LoopEvents,
  options: OpenLoopOptions = {},
): Promise<number> {
  const { signal, pace = paceByThread, nowMs = () => performance.now() } = options;
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  let startedAtMs = nowMs();
  let inFlight = 0;
  let isPaced = false;
  const sinceDueMs = (index: number) => nowMs() - startedAtMs - (dueMs[index] ?? Number.NaN);
  const settle = (emit: () => void) => {
    if (signal?.aborted !== true) emit();
    if (--inFlight === 0 && isPaced) end();
  };
  signal?.addEventListener("abort", () => end(), { once: true });
  const onStart = (atMs: number) => void (startedAtMs = atMs);
  const onDue = (index: number) => {
    inFlight++;
    events.sent(index, sinceDueMs(index));
    send(index).then(
      (reply) => settle(() => events.answered(index, sinceDueMs(index), reply)),
      (error: unknown) => settle(() => events.failed(index, sinceDueMs(index), error)),
    );
  };
  await pace(dueMs, { onStart, onDue }, signal);
  isPaced = true;
  if (inFlight === 0 || signal?.aborted === true) end();
  await ended;
  return Math.max(0, nowMs() - startedAtMs);
}

export interface ClosedLoopOptions {
  readonly concurrency: number;
  readonly durationSeconds: number;
  readonly signal?: AbortSignal;
}

/** Runs concurrent callers that wait for each answer before their next call. Returns calls per second. */
export async function closedLoop(
  call: () => Promise<void>,
  { concurrency, durationSeconds, signal }: ClosedLoopOptions,
): Promise<number> {
  const startedAtMs = performance.now();
  const endAtMs = startedAtMs + durationSeconds * 1_000;
  let done = 0;
  const caller = async () => {
    for (; performance.now() < endAtMs; done++) {
      if (signal?.aborted === true) return;
      await call();
    }
  };
  await Promise.all(Array.from({ length: concurrency }, caller));
  return (done * 1_000) / (performance.now() - startedAtMs);
}
