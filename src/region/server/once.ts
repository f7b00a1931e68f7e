// Keeps many callers and a broken model from making a storm of requests to the model store: a failure is remembered for a
// while, and one piece of work is shared among all who ask for it while it runs.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";

const MAX_REMEMBERED_FAILURES = 1_000;

export type Once<Result> = (key: string, work: () => Promise<Result>) => Promise<Result>;

export interface FailureMemory<Result> {
  run: Once<Result>;
  /** The next run of it is tried, whatever became of the last. */
  forget(key: string): void;
}

export interface FailureMemoryOptions {
  readonly clock: Clock;
  /** How long a failure is given again before the work is tried anew. */
  readonly retryAfterMs: number;
  /** Doubled with each failure in a row, up to this. */
  readonly maxRetryAfterMs?: number;
  /** A failure that says nothing of the next try: it doubles nothing. */
  readonly isPassing?: (error: unknown) => boolean;
}

interface Failure {
  readonly error: unknown;
  readonly delayMs: number;
  readonly untilMs: number;
}

export function createFailureMemory<Result>({
  clock,
  retryAfterMs,
  maxRetryAfterMs = retryAfterMs,
  isPassing = () => false,
}: FailureMemoryOptions): FailureMemory<Result> {
  const failures = new LRUCache<string, Failure>({ max: MAX_REMEMBERED_FAILURES });
  return {
    async run(key, work) {
      const before = failures.get(key);
      if (before !== undefined && clock.now() < before.untilMs) throw before.error;
      try {
        const result = await work();
        failures.delete(key);
        return result;
      } catch (error) {
        const delayMs =
          before === undefined || isPassing(error)
            ? retryAfterMs
            : Math.min(2 * before.delayMs, maxRetryAfterMs);
        failures.set(key, { error, delayMs, untilMs: clock.now() + delayMs });
        throw error;
      }
    },
    forget: (key) => void failures.delete(key),
  };
}

/** The same, and shared while it runs. */
export function createOnce<Result>(options: FailureMemoryOptions): Once<Result> {
  const running = new Map<string, Promise<Result>>();
  const memory = createFailureMemory<Result>(options);
  return (key, work) => {
    const current = running.get(key);
    if (current !== undefined) return current;
    const started = memory.run(key, work).finally(() => running.delete(key));
    running.set(key, started);
    return started;
  };
}
