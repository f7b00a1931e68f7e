// Which range an activation's integers should cover, from how often which numbers occurred.

import { Histogram } from "./histogram.ts";
import type { ValueRange } from "./quantization-scheme.ts";

export const RANGE_METHODS = ["minmax", "percentile", "entropy", "mse"] as const;

export type RangeMethod =
  /** Everything that occurred. */
  | { readonly kind: "minmax" }
  /** So many percent of what occurred, as many cut off below as above. */
  | { readonly kind: "percentile"; readonly percentile?: number }
  /** The range whose integers tell most of what occurred. It cuts off large numbers that are few, which transformers need. */
  | { readonly kind: "entropy" }
  /** The range with the least squared error, of rounding and of cutting off. */
  | { readonly kind: "mse" };

const DEFAULT_PERCENTILE = 99.99;

export function selectRange(histogram: Histogram, calibration: RangeMethod): ValueRange {
  const { low, high } = histogram;
  if (histogram.total === 0) return { low: 0, high: 0 };
  switch (calibration.kind) {
    case "minmax":
      return { low, high };
    case "percentile": {
      const cut = (1 - (calibration.percentile ?? DEFAULT_PERCENTILE) / 100) / 2;
      return { low: histogram.quantile(cut), high: histogram.quantile(1 - cut) };
    }
    case "entropy": {
      const threshold = findEntropyThreshold(histogram);
      return { low: Math.max(low, -threshold), high: Math.min(high, threshold) };
    }
    case "mse":
      return leastErrorRange(histogram);
  }
}

/** Shares of what occurred on each side that are tried; a range of less than a fifth of it has not been seen to be best. */
const CANDIDATE_SHARES = Array.from({ length: 33 }, (_, index) => 0.2 + 0.025 * index);
const INTEGER_COUNT = 256;

/** Rounding costs a twelfth of a step squared for every number; cutting off, the square of what is beyond. */
function leastErrorRange(histogram: Histogram): ValueRange {
  const { low, high } = histogram;
  const ends = (end: number) => (end === 0 ? [0] : CANDIDATE_SHARES.map((share) => share * end));
  // What is cut off on one side does not depend on the other.
  const lows = ends(Math.min(low, 0)).map((end) => ({ end, cutOff: histogram.squaresBelow(end) }));
  const highs = ends(Math.max(high, 0)).map((end) => ({
    end,
    cutOff: histogram.squaresAbove(end),
  }));
  let [best, least]: [ValueRange, number] = [{ low, high }, Number.POSITIVE_INFINITY];
  for (const one of lows) {
    for (const other of highs) {
      const error =
        one.cutOff +
        other.cutOff +
        (histogram.nonZeros * ((other.end - one.end) / (INTEGER_COUNT - 1)) ** 2) / 12;
      if (error < least) [best, least] = [{ low: one.end, high: other.end }, error];
    }
  }
  return best;
}

const BINS = 2_048;
/** What a magnitude that does not occur in an approximation is taken to occur with, as a share: its logarithm must exist. */
const MIN_PROBABILITY = 1e-6;

/**
 * The magnitude beyond which numbers are cut off: that with the least Kullback-Leibler divergence of the distribution in
 * integers from the one in FP32. Migacz 2017, "8-bit Inference with TensorRT", GTC S7310.
 */
function findEntropyThreshold(histogram: Histogram): number {
  const { counts, width } = histogram.magnitudes(BINS);
  const { low, high } = histogram;
  if (width === 0) return Math.max(-low, high);
  // Integers for the larger side: 128 of 256 if the range is symmetric, nearly all if it begins at 0.
  const levels = Math.round((255 * Math.max(-low, high)) / (Math.max(high, 0) - Math.min(low, 0)));
  const total = counts.reduce((sum, count) => sum + count, 0);
  let [best, least] = [BINS, Number.POSITIVE_INFINITY];
  let inside = counts.subarray(0, levels).reduce((sum, count) => sum + count, 0);
  for (let bins = levels; bins <= BINS; bins++) {
    if (bins > levels) inside += counts[bins - 1] ?? 0;
    const divergence =
      inside === 0
        ? Number.POSITIVE_INFINITY
        : computeDivergence(counts, bins, levels, inside, total);
    if (divergence < least) [best, least] = [bins, divergence];
  }
  return best * width;
}

/** Of the first `bins`, with all that is beyond in the last of them, from the same in `levels` steps. */
function computeDivergence(
  counts: Float64Array,
  bins: number,
  levels: number,
  inside: number,
  total: number,
): number {
  let divergence = 0;
  for (let level = 0; level < levels; level++) {
    const [start, end] = [
      Math.floor((level * bins) / levels),
      Math.floor(((level + 1) * bins) / levels),
    ];
    let [sum, occurring] = [0, 0];
    for (let bin = start; bin < end; bin++) {
      const count = counts[bin] ?? 0;
      sum += count;
      if (count > 0) occurring++;
    }
    for (let bin = start; bin < end; bin++) {
      const count = counts[bin] ?? 0;
      const real = (count + (bin === bins - 1 ? total - inside : 0)) / total;
      if (real === 0) continue;
      const approximated = count > 0 ? sum / occurring / inside : 0;
      divergence += real * Math.log(real / Math.max(approximated, MIN_PROBABILITY));
    }
  }
  return divergence;
}
