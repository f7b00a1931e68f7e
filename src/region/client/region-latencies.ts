// How long one region's calls take, by kind of call: means for the choice, histograms for quantiles.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";
import {
  createLatencyHistogram,
  type LatencyHistogram,
  computeQuantileMs,
} from "./latency-histogram.ts";
import { createMovingAverages, MAX_LATENCY_KEYS } from "./moving-averages.ts";

export interface RegionLatencies {
  /** A call is on its way. */
  recordStart(kind: string): void;
  /** Whether a call has been made lately: what is left out because of its quantiles would never be measured again. */
  hasRecentCall(kind: string): boolean;
  record(kind: string, tookMs: number): void;
  /** Of a call that would have taken longer still, and had no answer: the mean hears of it, the histogram of answers does not. */
  recordTimeout(kind: string, tookMs: number): void;
  /** @param expectedMs where nothing was measured of late */
  meanMs(kind: string, expectedMs: number): number;
  /** Of one kind of call, or of all. @returns undefined for fewer samples than `atLeast` */
  quantileMs(quantile: number, atLeast: number, kind?: string): number | undefined;
}

const RECENT_CALL_MS = 5_000;

export function createRegionLatencies(clock: Clock): RegionLatencies {
  const means = createMovingAverages(clock);
  const histograms = new LRUCache<string, LatencyHistogram>({ max: MAX_LATENCY_KEYS });
  const beganAtMs = new LRUCache<string, number>({ max: MAX_LATENCY_KEYS });
  return {
    recordStart: (kind) => void beganAtMs.set(kind, clock.now()),
    hasRecentCall: (kind) => clock.now() - (beganAtMs.get(kind) ?? -Infinity) < RECENT_CALL_MS,
    record(kind, tookMs) {
      means.record(kind, tookMs);
      const histogram = histograms.get(kind) ?? createLatencyHistogram(clock);
      histograms.set(kind, histogram);
      histogram.record(tookMs);
    },
    recordTimeout: means.record,
    meanMs: means.meanMs,
    quantileMs(quantile, atLeast, kind) {
      const one = kind === undefined ? undefined : histograms.get(kind);
      return computeQuantileMs(
        kind === undefined ? [...histograms.values()] : one === undefined ? [] : [one],
        quantile,
        atLeast,
      );
    },
  };
}
