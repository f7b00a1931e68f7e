// Samples in ascending order, and what they say of percentiles.

import { CONFIDENCE, maxViolations } from "./percentile-bound.ts";

export interface Distribution {
  readonly count: number;
  /** The smallest value that so large a share of the values does not exceed; NaN of none. */
  quantile(share: number): number;
  /** What bounds the percentile of all values there could be, with confidence; undefined of too few. */
  quantileUpperBound(share: number): number | undefined;
  countAbove(value: number): number;
  readonly values: Float64Array;
}

export function createDistribution(samples: ArrayLike<number>): Distribution {
  const values = Float64Array.from(samples).toSorted();
  const n = values.length;
  return {
    count: n,
    values,
    quantile: (share) => values[Math.max(0, Math.ceil(share * n) - 1)] ?? Number.NaN,
    quantileUpperBound(share) {
      const most = maxViolations(n, share, CONFIDENCE);
      return most === undefined ? undefined : values[n - 1 - most];
    },
    countAbove(value) {
      let [low, high] = [0, n]; // the first position whose value is above
      while (low < high) {
        const middle = (low + high) >> 1;
        if ((values[middle] ?? 0) > value) high = middle;
        else low = middle + 1;
      }
      return n - low;
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

/** Buckets that grow with their values, without a gap. */
export function computeHistogram({ values }: Distribution): HistogramBucket[] {
  const bucketOf = (ms: number) =>
    Math.floor(BUCKETS_PER_DECADE * Math.log10(Math.max(ms, MIN_MS)));
  const [least, most] = [values[0], values.at(-1)];
  if (least === undefined || most === undefined) return [];
  const first = bucketOf(least);
  const counts = new Uint32Array(bucketOf(most) - first + 1);
  for (const value of values)
    counts[bucketOf(value) - first] = (counts[bucketOf(value) - first] ?? 0) + 1;
  const edge = (bucket: number) => Number((10 ** (bucket / BUCKETS_PER_DECADE)).toPrecision(4));
  return [...counts].map((count, index) => ({
    fromMs: edge(first + index),
    toMs: edge(first + index + 1),
    count,
  }));
}
