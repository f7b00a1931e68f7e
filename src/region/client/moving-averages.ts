// Recent mean latencies by kind of call. The means are geometric, so one slow call in fifty hardly moves them. Without new
// samples they decay toward the expected value.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";

export interface MovingAverages {
  record(key: string, ms: number): void;
  /** @param expectedMs result without samples; its weight grows with the time since the last sample */
  meanMs(key: string, expectedMs: number): number;
}

/** Number of model and tier combinations; the least recently used is evicted. */
export const MAX_LATENCY_KEYS = 32;
/** Weight of each new sample. */
const WEIGHT = 0.1;
/** The decay lets a region that was slow be tried again. */
const HALF_LIFE_MS = 10_000;
const MIN_MS = 0.5;

export function createMovingAverages(clock: Clock): MovingAverages {
  const means = new LRUCache<string, { readonly log: number; readonly atMs: number }>({
    max: MAX_LATENCY_KEYS,
  });
  return {
    record(key, ms) {
      const log = Math.log(Math.max(MIN_MS, ms));
      const previous = means.get(key)?.log ?? log;
      means.set(key, { log: previous + WEIGHT * (log - previous), atMs: clock.now() });
    },
    meanMs(key, expectedMs) {
      const mean = means.get(key);
      if (mean === undefined) return expectedMs;
      const weight = 2 ** ((mean.atMs - clock.now()) / HALF_LIFE_MS);
      return Math.exp(weight * mean.log + (1 - weight) * Math.log(Math.max(MIN_MS, expectedMs)));
    },
  };
}
