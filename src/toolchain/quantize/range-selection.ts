// Selects the range that an activation's integers cover, from a histogram of its values.

import { Histogram } from "./histogram.ts";
import type { ValueRange } from "./quantization-scheme.ts";

export const RANGE_METHODS = ["minmax", "percentile", "entropy", "mse"] as const;

export type RangeMethod =
  /** The full range of the values. */
  | { readonly kind: "minmax" }
  /** The central share of the values, in percent. Equal shares are clipped below and above. */
  | { readonly kind: "percentile"; readonly percentile?: number }
  /**
   * The range with the least information loss. It clips rare large values, which transformers need.
   */
  | { readonly kind: "entropy" }
  /** The range with the least squared error of rounding and clipping. */
  | { readonly kind: "mse" };

const DEFAULT_PERCENTILE = 99.99;

export function selectRange(histogram: Histogram, method: RangeMethod): ValueRange {
  const { low, high } = histogram;
  if (histogram.total === 0) return { low: 0, high: 0 };
  switch (method.kind) {
    case "minmax":
      return { low, high };
    case "percentile": {
      const tail = (1 - (method.percentile ?? DEFAULT_PERCENTILE) / 100) / 2;
      return { low: histogram.quantile(tail), high: histogram.quantile(1 - tail) };
    }
    case "entropy": {
      const threshold = findEntropyThreshold(histogram);
      return { low: Math.max(low, -threshold), high: Math.min(high, threshold) };
    }
    case "mse":
      return leastErrorRange(histogram);
  }
}

/** Tried fractions of each side's extreme. No range below a fifth of it is known to be the best. */
const CANDIDATE_SHARES = Array.from({ length: 33 }, (_, index) => 0.2 + 0.025 * index);
const INTEGER_COUNT = 256;

/**
 * Rounding costs a twelfth of a squared step per value, and clipping the squared distance to the
 * bound.
 */
function leastErrorRange(histogram: Histogram): ValueRange {
  const { low, high } = histogram;
  const boundsFor = (extreme: number) =>
    extreme === 0 ? [0] : CANDIDATE_SHARES.map((share) => share * extreme);
  // The clipping error of one side does not depend on the other side.
  const lows = boundsFor(Math.min(low, 0)).map((bound) => ({
    bound,
    clippingError: histogram.squaresBelow(bound),
  }));
  const highs = boundsFor(Math.max(high, 0)).map((bound) => ({
    bound,
    clippingError: histogram.squaresAbove(bound),
  }));
  let [best, least]: [ValueRange, number] = [{ low, high }, Number.POSITIVE_INFINITY];
  for (const lower of lows) {
    for (const upper of highs) {
      const step = (upper.bound - lower.bound) / (INTEGER_COUNT - 1);
      const roundingError = (histogram.nonZeros * step ** 2) / 12;
      const error = lower.clippingError + upper.clippingError + roundingError;
      if (error < least) [best, least] = [{ low: lower.bound, high: upper.bound }, error];
    }
  }
  return best;
}

const BINS = 2_048;
/**
 * Probability of a magnitude that is missing in an approximation, because its logarithm must exist.
 */
const MIN_PROBABILITY = 1e-6;

/**
 * Finds the magnitude to clip at, which minimizes the Kullback-Leibler divergence between the
 * distributions in integers and in FP32. Migacz 2017, "8-bit Inference with TensorRT", GTC S7310.
 */
function findEntropyThreshold(histogram: Histogram): number {
  const { counts, width } = histogram.magnitudes(BINS);
  const { low, high } = histogram;
  if (width === 0) return Math.max(-low, high);
  // The larger side gets 128 of 256 integers if the range is symmetric, and nearly all if it starts
  // at 0.
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

/**
 * Computes the divergence of the first `bins`, with the tail in the last bin, from their
 * approximation in `levels` steps.
 */
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
    let [sum, nonEmpty] = [0, 0];
    for (let bin = start; bin < end; bin++) {
      const count = counts[bin] ?? 0;
      sum += count;
      if (count > 0) nonEmpty++;
    }
    for (let bin = start; bin < end; bin++) {
      const count = counts[bin] ?? 0;
      const probability = (count + (bin === bins - 1 ? total - inside : 0)) / total;
      if (probability === 0) continue;
      const approximation = count > 0 ? sum / nonEmpty / inside : 0;
      divergence += probability * Math.log(probability / Math.max(approximation, MIN_PROBABILITY));
    }
  }
  return divergence;
}
