// Counts requests in this isolate alone: each isolate allows the whole limit. The pre-check of the shared limiter, and what is left
// of it while Redis is away.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../../core/clock.ts";
import {
  decisionOf,
  type RateLimit,
  type RateLimitDecision,
  type RateLimiter,
  takeToken,
} from "../rate-limiter.ts";

/** Those unused for longest are forgotten: memory stays bounded whatever addresses come. */
const MAX_SUBJECTS = 10_000;

export interface IsolateRateLimiter extends RateLimiter {
  /** Counts without waiting. */
  takeSync(subject: string, limit: RateLimit): RateLimitDecision;
  /** What others have found out about a subject's bucket. */
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
