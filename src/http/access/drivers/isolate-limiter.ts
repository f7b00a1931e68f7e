// Counts requests in this isolate alone: each isolate allows the whole limit. The pre-check of the shared limiter, and what is left
// of it while Redis is away.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../../core/clock.ts";
import {
  decisionOf,
  type RateLimit,
  type RateLimitDecision,
  type RateLimiter,
  takeOne,
} from "../rate-limiter.ts";

/** Those unused for longest are forgotten: memory stays bounded whatever addresses come. */
const MAX_SUBJECTS = 10_000;

export interface IsolateLimiter extends RateLimiter {
  /** Counts without waiting. */
  takeNow(subject: string, limit: RateLimit): RateLimitDecision;
  /** What others have found out about a subject's bucket. */
  learn(subject: string, fullAtMs: number): void;
}

export function createIsolateLimiter(clock: Clock): IsolateLimiter {
  const fullAtMs = new LRUCache<string, number>({ max: MAX_SUBJECTS });

  function takeNow(subject: string, limit: RateLimit): RateLimitDecision {
    const nowMs = clock.now();
    const bucket = takeOne(fullAtMs.get(subject) ?? 0, limit, nowMs);
    fullAtMs.set(subject, bucket.fullAtMs);
    return decisionOf(bucket, limit, nowMs);
  }

  return {
    takeNow,
    take: async (subject, limit) => takeNow(subject, limit),
    learn: (subject, known) =>
      void fullAtMs.set(subject, Math.max(fullAtMs.get(subject) ?? 0, known)),
  };
}
