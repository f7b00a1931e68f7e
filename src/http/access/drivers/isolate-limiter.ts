// Isolate rate limiter: counts the requests of this isolate only, so that each isolate allows the whole limit. It is the
// pre-check of the Redis limiter, and its fallback while Redis is unavailable.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../../core/clock.ts";
import {
  decisionOf,
  type RateLimit,
  type RateLimitDecision,
  type RateLimiter,
  takeToken,
} from "../rate-limiter.ts";

/** The least recently used subjects are evicted, so that memory stays bounded for any number of addresses. */
const MAX_SUBJECTS = 10_000;

export interface IsolateRateLimiter extends RateLimiter {
  /** Counts one request synchronously. */
  takeSync(subject: string, limit: RateLimit): RateLimitDecision;
  /** Applies the state of a subject's bucket that another limiter has found. */
  mergeBucket(subject: string, fullAtMs: number): void;
}

export function createIsolateRateLimiter(clock: Clock): IsolateRateLimiter {
  const fullAtMs = new LRUCache<string, number>({ max: MAX_SUBJECTS });

  function takeNow(subject: string, limit: RateLimit): RateLimitDecision {
    const nowMs = clock.now();
    const bucket = takeToken(fullAtMs.get(subject) ?? 0, limit, nowMs);
    fullAtMs.set(subject, bucket.fullAtMs);
    return decisionOf(bucket, limit, nowMs);
  }

  return {
    takeSync: takeNow,
    take: async (subject, limit) => takeNow(subject, limit),
    mergeBucket: (subject, known) =>
      void fullAtMs.set(subject, Math.max(fullAtMs.get(subject) ?? 0, known)),
  };
}
