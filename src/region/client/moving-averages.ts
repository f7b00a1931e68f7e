// What a time has been of late, by kind of call: geometric means, which one slow call in fifty hardly moves, and which give way
// to what is expected anyhow while nothing new is measured.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";

export interface MovingAverages {
  record(kind: string, ms: number): void;
  /** @param expectedMs where nothing was measured, and more and more as time goes by since */
  meanMs(kind: string, expectedMs: number): number;
}

/** Of models and tiers together; the one unused for longest is forgotten. */
export const MAX_LATENCY_KEYS = 32;
/** Of each new sample. */
const WEIGHT = 0.1;
/** A region that was slow is so forgotten, and tried again. */
const HALF_LIFE_MS = 10_000;
const MIN_MS = 0.5;

export function createMovingAverages(clock: Clock): MovingAverages {
  const means = new LRUCache<string, { readonly log: number; readonly atMs: number }>({
    max: MAX_LATENCY_KEYS,
  });
  return {
    record(kind, ms) {
      const log = Math.log(Math.max(MIN_MS, ms));
      const before = means.get(kind)?.log ?? log;
      means.set(kind, { log: before + WEIGHT * (log - before), atMs: clock.now() });
    },
    meanMs(kind, expectedMs) {
      const mean = means.get(kind);
      if (mean === undefined) return expectedMs;
      const weight = 2 ** ((mean.atMs - clock.now()) / HALF_LIFE_MS);
      return Math.exp(weight * mean.log + (1 - weight) * Math.log(Math.max(MIN_MS, expectedMs)));
    },
  };
}
