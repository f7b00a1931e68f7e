// Latencies of the recent past in logarithmic buckets, so that their quantiles are known within 5 %. Masson, Rim and Lee 2019,
// "DDSketch: A Fast and Fully-Mergeable Quantile Sketch with Relative-Error Guarantees".

import type { Clock } from "./clock.ts";

export interface LatencyHistogram {
  /** @param latencyMs from 0 on */
  record(latencyMs: number): void;
  /** Latencies of the window. */
  readonly count: number;
  /** @param quantile from 0 to 1 @returns milliseconds; undefined where nothing has been recorded lately */
  quantile(quantile: number): number | undefined;
}

const RELATIVE_ERROR = 0.05;
const GROWTH = Math.log((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR));
/** What is shorter counts as this, what is longer as the last bucket: about an hour. */
const LEAST_MS = 0.01;
const BUCKETS = 200;

/** @param windowMs what is older than this is forgotten, at twice this age at the latest */
export function createLatencyHistogram(clock: Clock, windowMs: number): LatencyHistogram {
  let [current, previous] = [new Uint32Array(BUCKETS), new Uint32Array(BUCKETS)];
  let startedAtMs = clock.now();

  function turn(): void {
    const ageMs = clock.now() - startedAtMs;
    if (ageMs < windowMs) return;
    previous = ageMs < 2 * windowMs ? current : new Uint32Array(BUCKETS);
    current = new Uint32Array(BUCKETS);
    startedAtMs = clock.now();
  }

  const total = () => current.reduce((sum, count, bucket) => sum + count + (previous[bucket] ?? 0), 0);

  return {
    record(latencyMs) {
      turn();
      const bucket = Math.min(BUCKETS - 1, Math.ceil(Math.log(Math.max(LEAST_MS, latencyMs) / LEAST_MS) / GROWTH));
      current[bucket] = (current[bucket] ?? 0) + 1;
    },
    get count() {
      turn();
      return total();
    },
    quantile(quantile) {
      turn();
      const rank = Math.max(1, Math.ceil(quantile * total()));
      let seen = 0;
      for (let bucket = 0; bucket < BUCKETS; bucket++) {
        seen += (current[bucket] ?? 0) + (previous[bucket] ?? 0);
        if (seen >= rank) return LEAST_MS * Math.exp(GROWTH * bucket) * (1 - RELATIVE_ERROR);
      }
      return undefined;
    },
  };
}
