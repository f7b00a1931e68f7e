// Distribution: sorts samples and computes quantiles, their confidence bounds, and histograms.

import { CONFIDENCE, maxViolations } from "./percentile-bound.ts";

export interface Distribution {
  readonly count: number;
  /** Smallest value that `share` of the values do not exceed. NaN without samples. */
  quantile(share: number): number;
  /** Confidence bound of the quantile of the underlying distribution. Undefined with too few samples. */
  quantileUpperBound(share: number): number | undefined;
  countAbove(value: number): number;
  readonly values: Float64Array;
}

export function createDistribution(samples: ArrayLike<number>): Distribution {
  const values = Float64Array.from(samples).toSorted();
  const count = values.length;
  return {
    count,
    values,
    quantile: (share) => values[Math.max(0, Math.ceil(share * count) - 1)] ?? Number.NaN,
    quantileUpperBound(share) {
      const violations = maxViolations(count, share, CONFIDENCE);
      return violations === undefined ? undefined : values[count - 1 - violations];
    },
    countAbove(value) {
      let [low, high] = [0, count]; // bounds of the first position whose value is above
      while (low < high) {
        const middle = (low + high) >> 1;
        if ((values[middle] ?? 0) > value) high = middle;
        else low = middle + 1;
      }
      return count - low;
    },
  };
}

export interface HistogramBucket {
  readonly fromMs: number;
  readonly toMs: number;
  readonly count: number;
}

const BUCKETS_PER_DECADE = 20;
const MIN_MS = 0.01;

/** Counts values in adjacent buckets of logarithmic width. */
export function computeHistogram({ values }: Distribution): HistogramBucket[] {
  const bucketOf = (ms: number) =>
    Math.floor(BUCKETS_PER_DECADE * Math.log10(Math.max(ms, MIN_MS)));
  const [min, max] = [values[0], values.at(-1)];
  if (min === undefined || max === undefined) return [];
  const first = bucketOf(min);
  const counts = new Uint32Array(bucketOf(max) - first + 1);
  for (const value of values)
    counts[bucketOf(value) - first] = (counts[bucketOf(value) - first] ?? 0) + 1;
  const boundaryMs = (bucket: number) =>
    Number((10 ** (bucket / BUCKETS_PER_DECADE)).toPrecision(4));
  return [...counts].map((count, index) => ({
    fromMs: boundaryMs(first + index),
    toMs: boundaryMs(first + index + 1),
    count,
  }));
}
