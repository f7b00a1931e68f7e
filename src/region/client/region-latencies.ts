// Latencies of one region by kind of call: means for choosing a region, histograms for quantiles.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";
import {
  createLatencyHistogram,
  type LatencyHistogram,
  computeQuantileMs,
} from "./latency-histogram.ts";
import { createMovingAverages, MAX_LATENCY_KEYS } from "./moving-averages.ts";

export interface RegionLatencies {
  /** Records that a call has started. */
  recordStart(key: string): void;
  /** Returns whether a call started recently. A region skipped because of old quantiles would never be measured again. */
  hasRecentCall(key: string): boolean;
  record(key: string, durationMs: number): void;
  /** Records a call that ended unanswered. It counts for the mean, but not for the histogram of answers. */
  recordTimeout(key: string, durationMs: number): void;
  /** @param expectedMs result without recent samples */
  meanMs(key: string, expectedMs: number): number;
  /** @param key kind of call; all kinds if absent @returns undefined for fewer than `minSamples` samples */
  quantileMs(quantile: number, minSamples: number, key?: string): number | undefined;
}

const RECENT_CALL_MS = 5_000;

export function createRegionLatencies(clock: Clock): RegionLatencies {
  const means = createMovingAverages(clock);
  const histograms = new LRUCache<string, LatencyHistogram>({ max: MAX_LATENCY_KEYS });
  const startedAtMs = new LRUCache<string, number>({ max: MAX_LATENCY_KEYS });
  return {
    recordStart: (key) => void startedAtMs.set(key, clock.now()),
    hasRecentCall: (key) => clock.now() - (startedAtMs.get(key) ?? -Infinity) < RECENT_CALL_MS,
    record(key, durationMs) {
      means.record(key, durationMs);
      const histogram = histograms.get(key) ?? createLatencyHistogram(clock);
      histograms.set(key, histogram);
      histogram.record(durationMs);
    },
    recordTimeout: means.record,
    meanMs: means.meanMs,
    quantileMs(quantile, minSamples, key) {
      const histogram = key === undefined ? undefined : histograms.get(key);
      return computeQuantileMs(
        key === undefined ? [...histograms.values()] : histogram === undefined ? [] : [histogram],
        quantile,
        minSamples,
      );
    },
  };
}
