// How long one region's calls take, by kind of call: means for the choice, histograms for quantiles.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";
import { createLatencyHistogram, type LatencyHistogram, quantileMs } from "./latency-histogram.ts";
import { createRecentMeans, MAX_KINDS } from "./recent-means.ts";

export interface RegionLatencies {
  /** A call is on its way. */
  began(kind: string): void;
  /** Whether a call has been made lately: what is left out because of its quantiles would never be measured again. */
  isRenewed(kind: string): boolean;
  record(kind: string, tookMs: number): void;
  /** Of a call that would have taken longer still, and had no answer: the mean hears of it, the histogram of answers does not. */
  recordLoss(kind: string, tookMs: number): void;
  /** @param expectedMs where nothing was measured of late */
  meanMs(kind: string, expectedMs: number): number;
  /** Of one kind of call, or of all. @returns undefined for fewer samples than `atLeast` */
  quantileMs(quantile: number, atLeast: number, kind?: string): number | undefined;
}

const RENEWED_FOR_MS = 5_000;

export function createRegionLatencies(clock: Clock): RegionLatencies {
  const means = createRecentMeans(clock);
  const histograms = new LRUCache<string, LatencyHistogram>({ max: MAX_KINDS });
  const beganAtMs = new LRUCache<string, number>({ max: MAX_KINDS });
  return {
    began: (kind) => void beganAtMs.set(kind, clock.now()),
    isRenewed: (kind) => clock.now() - (beganAtMs.get(kind) ?? -Infinity) < RENEWED_FOR_MS,
    record(kind, tookMs) {
      means.record(kind, tookMs);
      const histogram = histograms.get(kind) ?? createLatencyHistogram(clock);
      histograms.set(kind, histogram);
      histogram.record(tookMs);
    },
    recordLoss: means.record,
    meanMs: means.value,
    quantileMs(quantile, atLeast, kind) {
      const one = kind === undefined ? undefined : histograms.get(kind);
      return quantileMs(
        kind === undefined ? [...histograms.values()] : one === undefined ? [] : [one],
        quantile,
        atLeast,
      );
    },
  };
}
