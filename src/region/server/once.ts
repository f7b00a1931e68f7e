// Shares one piece of work among all who ask for it while it runs, and remembers a failure for a short while, so that
// neither many callers nor a broken model can make a storm of requests to the model store.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";

const MAX_REMEMBERED_FAILURES = 1_000;

export type Once<Result> = (key: string, work: () => Promise<Result>) => Promise<Result>;

/** @param retryAfterMs how long a failure is given again before the work is tried anew */
export function createOnce<Result>(clock: Clock, retryAfterMs: number): Once<Result> {
  const running = new Map<string, Promise<Result>>();
  const failures = new LRUCache<string, { readonly error: unknown; readonly untilMs: number }>({ max: MAX_REMEMBERED_FAILURES });

  return (key, work) => {
    const current = running.get(key);
    if (current !== undefined) return current;
    const failure = failures.get(key);
    if (failure !== undefined && clock.now() < failure.untilMs) return Promise.reject(failure.error);

    const started = work();
    running.set(key, started);
    started.then(
      () => failures.delete(key),
      (error: unknown) => failures.set(key, { error, untilMs: clock.now() + retryAfterMs }),
    ).finally(() => running.delete(key));
    return started;
  };
}
