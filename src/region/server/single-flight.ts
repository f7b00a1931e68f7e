// Single flight: concurrent callers of the same key share one call, and a failure is cached for a while. Many callers of a
// broken model thus cannot overload the model store.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";

const MAX_CACHED_FAILURES = 1_000;

export type SingleFlight<Result> = (key: string, work: () => Promise<Result>) => Promise<Result>;

export interface FailureCache<Result> {
  run: SingleFlight<Result>;
  /** Lets the next call run, whatever the outcome of the last one. */
  clear(key: string): void;
}

export interface FailureCacheOptions {
  readonly clock: Clock;
  /** Time during which a failure is repeated before the work runs again. */
  readonly retryAfterMs: number;
  /** Limit of that time, which doubles with each consecutive failure. */
  readonly maxRetryAfterMs?: number;
  /** Recognizes failures that do not predict the next attempt; they double nothing. */
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
  isTransient = () => false,
}: FailureCacheOptions): FailureCache<Result> {
  const failures = new LRUCache<string, CachedFailure>({ max: MAX_CACHED_FAILURES });
  return {
    async run(key, work) {
      const previous = failures.get(key);
      if (previous !== undefined && clock.now() < previous.untilMs) throw previous.error;
      try {
        const result = await work();
        failures.delete(key);
        return result;
      } catch (error) {
        const delayMs =
          previous === undefined || isTransient(error)
            ? retryAfterMs
            : Math.min(2 * previous.delayMs, maxRetryAfterMs);
        failures.set(key, { error, delayMs, untilMs: clock.now() + delayMs });
        throw error;
      }
    },
    clear: (key) => void failures.delete(key),
  };
}

/** Shares each running call among its callers, and caches failures as createFailureCache does. */
export function createSingleFlight<Result>(options: FailureCacheOptions): SingleFlight<Result> {
  const running = new Map<string, Promise<Result>>();
  const failureCache = createFailureCache<Result>(options);
  return (key, work) => {
    const current = running.get(key);
    if (current !== undefined) return current;
    const started = failureCache.run(key, work).finally(() => running.delete(key));
    running.set(key, started);
    return started;
  };
}
