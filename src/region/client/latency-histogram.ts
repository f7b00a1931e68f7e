// Latencies in buckets whose bounds grow by 2^(1/8), 9 %: from 1 ms to 65 s. Histograms have the same bounds and can be added up.
//
// Two generations are kept and the older one is dropped, so that quantiles are those of the last samples, and of the last minutes: who
// asks a region no more because it was slow would never learn that it is quick again.

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
  let recorded = 0;
  let kept = 0;
  let beganAtMs = clock.now();

  function turn(): void {
    [older, newer, kept, recorded] = [newer, [], recorded, 0];
    beganAtMs = clock.now();
  }

  function turnIfOld(): void {
    const ageMs = clock.now() - beganAtMs;
    if (ageMs >= 2 * GENERATION_MS) turn();
    if (ageMs >= GENERATION_MS) turn();
  }

  return {
    record(latencyMs) {
      turnIfOld();
      if (recorded === GENERATION_SAMPLES) turn();
      const bucket = Math.min(
        LAST_BUCKET,
        Math.ceil(BUCKETS_PER_OCTAVE * Math.log2(Math.max(1, latencyMs))),
      );
      newer[bucket] = (newer[bucket] ?? 0) + 1;
      recorded++;
    },
    get sampleCount() {
      turnIfOld();
      return kept + recorded;
    },
    bucketCount: (bucket) => (older[bucket] ?? 0) + (newer[bucket] ?? 0),
  };
}

/** @returns of all histograms together the upper bound of the bucket that the quantile lies in; undefined for fewer samples than `atLeast` */
export function computeQuantileMs(
  histograms: readonly LatencyHistogram[],
  quantile: number,
  atLeast: number,
): number | undefined {
  const samples = histograms.reduce((sum, one) => sum + one.sampleCount, 0);
  if (samples < Math.max(1, atLeast)) return undefined;
  let rank = Math.max(1, Math.ceil(quantile * samples));
  let bucket = -1;
  while (rank > 0 && bucket < LAST_BUCKET) {
    bucket++;
    for (const one of histograms) rank -= one.bucketCount(bucket);
  }
  return 2 ** (bucket / BUCKETS_PER_OCTAVE);
}
