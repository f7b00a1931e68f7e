// Latency histogram whose bucket bounds grow by 2^(1/8), about 9 %, from 1 ms to 65 s. All histograms have the same bounds, so
// they can be added up.
//
// Two generations are kept and the older one is dropped, so quantiles cover recent samples and recent minutes only. A region
// that was avoided for its latency would otherwise never appear fast again.

import type { Clock } from "../../core/clock.ts";

const BUCKETS_PER_OCTAVE = 8;
const LAST_BUCKET = 16 * BUCKETS_PER_OCTAVE;
const GENERATION_SAMPLES = 256;
const GENERATION_MS = 60_000;

export interface LatencyHistogram {
  record(latencyMs: number): void;
  readonly sampleCount: number;
  bucketCount(bucket: number): number;
}

export function createLatencyHistogram(clock: Clock): LatencyHistogram {
  let older: number[] = [];
  let newer: number[] = [];
  let newerCount = 0;
  let olderCount = 0;
  let startedAtMs = clock.now();

  function rotate(): void {
    [older, newer, olderCount, newerCount] = [newer, [], newerCount, 0];
    startedAtMs = clock.now();
  }

  function rotateIfOld(): void {
    const ageMs = clock.now() - startedAtMs;
    if (ageMs >= 2 * GENERATION_MS) rotate();
    if (ageMs >= GENERATION_MS) rotate();
  }

  return {
    record(latencyMs) {
      rotateIfOld();
      if (newerCount === GENERATION_SAMPLES) rotate();
      const bucket = Math.min(
        LAST_BUCKET,
        Math.ceil(BUCKETS_PER_OCTAVE * Math.log2(Math.max(1, latencyMs))),
      );
      newer[bucket] = (newer[bucket] ?? 0) + 1;
      newerCount++;
    },
    get sampleCount() {
      rotateIfOld();
      return olderCount + newerCount;
    },
    bucketCount: (bucket) => (older[bucket] ?? 0) + (newer[bucket] ?? 0),
  };
}

/**
 * Computes a quantile over several histograms.
 * @returns the upper bound of the bucket with the quantile; undefined for fewer than `minSamples` samples
 */
export function computeQuantileMs(
  histograms: readonly LatencyHistogram[],
  quantile: number,
  minSamples: number,
): number | undefined {
  const samples = histograms.reduce((sum, histogram) => sum + histogram.sampleCount, 0);
  if (samples < Math.max(1, minSamples)) return undefined;
  let rank = Math.max(1, Math.ceil(quantile * samples));
  let bucket = -1;
  while (rank > 0 && bucket < LAST_BUCKET) {
    bucket++;
    for (const histogram of histograms) rank -= histogram.bucketCount(bucket);
  }
  return 2 ** (bucket / BUCKETS_PER_OCTAVE);
}
