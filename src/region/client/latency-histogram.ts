// Latencies in buckets whose bounds grow by 2^(1/8), 9 %: from 1 ms to 65 s. Histograms of the same bounds can be added up.
//
// Two generations are kept and the older one is dropped, so that quantiles are those of the last samples.

const PER_OCTAVE = 8;
const BUCKETS = 16 * PER_OCTAVE + 1;
const GENERATION = 256;

export interface LatencyHistogram {
  record(latencyMs: number): void;
  /** Samples by bucket, the fastest first. */
  readonly counts: readonly number[];
}

export function createLatencyHistogram(): LatencyHistogram {
  let older = emptyCounts();
  let newer = emptyCounts();
  let recorded = 0;

  return {
    record(latencyMs) {
      if (recorded === GENERATION) [older, newer, recorded] = [newer, emptyCounts(), 0];
      const bucket = Math.min(BUCKETS - 1, Math.ceil(PER_OCTAVE * Math.log2(Math.max(1, latencyMs))));
      newer[bucket] = (newer[bucket] ?? 0) + 1;
      recorded++;
    },
    get counts() {
      return sumOf([older, newer]);
    },
  };
}

/** @returns the upper bound of the bucket that the quantile lies in; undefined for fewer samples than `atLeast` */
export function quantileMs(histograms: readonly Pick<LatencyHistogram, "counts">[], quantile: number, atLeast: number): number | undefined {
  const counts = sumOf(histograms.map((one) => one.counts));
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0 || total < atLeast) return undefined;
  let rank = Math.max(1, Math.ceil(quantile * total));
  const bucket = counts.findIndex((count) => (rank -= count) <= 0);
  return 2 ** (bucket / PER_OCTAVE);
}

const emptyCounts = (): number[] => Array.from({ length: BUCKETS }, () => 0);
const sumOf = (parts: readonly (readonly number[])[]): number[] => emptyCounts().map((_, bucket) => parts.reduce((sum, counts) => sum + (counts[bucket] ?? 0), 0));
