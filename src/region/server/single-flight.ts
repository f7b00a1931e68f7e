// Keeps many callers and a broken model from making a storm of requests to the model store: a failure is remembered for a
// while, and one piece of work is shared among all who ask for it while it runs.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";

const MAX_CACHED_FAILURES = 1_000;

export type SingleFlight<Result> = (key: string, work: () => Promise<Result>) => Promise<Result>;

export interface FailureCache<Result> {
  run: SingleFlight<Result>;
  /** The next run of it is tried, whatever became of the last. */
  clear(key: string): void;
}

export interface FailureCacheOptions {
  readonly clock: Clock;
  /** How long a failure is given again before the work is tried anew. */
  readonly retryAfterMs: number;
  /** Doubled with each failure in a row, up to this. */
  readonly maxRetryAfterMs?: number;
  /** A failure that says nothing of the next try: it doubles nothing. */
  readonly isTransient?: (error: unknown) => boolean;
}

interface CachedFailure {
  readonly error: unknown;
  readonly delayMs: number;
  readonly untilMs: number;
}

export function createFailureCache<Result>({
  clock,
  retryAfterMs,
  maxRetryAfterMs = retryAfterMs,
  isTransient: isPassing = () => false,
}: FailureCacheOptions): FailureCache<Result> {
  const failures = new LRUCache<string, CachedFailure>({ max: MAX_CACHED_FAILURES });
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
    clear: (key) => void failures.delete(key),
  };
}

/** The same, and shared while it runs. */
export function createSingleFlight<Result>(options: FailureCacheOptions): SingleFlight<Result> {
  const running = new Map<string, Promise<Result>>();
  const memory = createFailureCache<Result>(options);
  return (key, work) => {
    const current = running.get(key);
    if (current !== undefined) return current;
    const started = memory.run(key, work).finally(() => running.delete(key));
    running.set(key, started);
    return started;
  };
}
