// Standardization: scales features to mean 0 and standard deviation 1 for training, and folds that
// scaling into a layer.

import type { DenseLayer } from "./dense-layers.ts";

export interface Standardization {
  readonly mean: Float32Array;
  /** Standard deviation of each feature, or 1 for a constant feature. */
  readonly stdDev: Float32Array;
}

/** @param rows [n, width] */
export function fitStandardization(rows: Float32Array, width: number): Standardization {
  const count = Math.max(1, rows.length / width);
  const sums = new Float64Array(width);
  const squares = new Float64Array(width);
  rows.forEach((value, index) => (sums[index % width] = (sums[index % width] ?? 0) + value));
  const mean = Float32Array.from(sums, (sum) => sum / count);
  rows.forEach(
    (value, index) =>
      (squares[index % width] =
        (squares[index % width] ?? 0) + (value - (mean[index % width] ?? 0)) ** 2),
  );
  return {
    mean,
    stdDev: Float32Array.from(squares, (square) => Math.sqrt(square / count) || 1),
  };
}

/** @returns a copy */
export function standardize(rows: Float32Array, { mean, stdDev }: Standardization): Float32Array {
  return rows.map(
    (value, index) =>
      (value - (mean[index % mean.length] ?? 0)) / (stdDev[index % mean.length] ?? 1),
  );
}

/** Converts a first layer for standardized features into one for raw features. */
export function foldStandardization(
  { inputs, outputs, weights, bias }: DenseLayer,
  { mean, stdDev }: Standardization,
): DenseLayer {
  const folded = weights.map(
    (weight, index) => weight / (stdDev[Math.floor(index / outputs)] ?? 1),
  );
  const shiftedBias = bias.map((value, output) => {
    let sum = value;
    for (let input = 0; input < inputs; input++)
      sum -= (mean[input] ?? 0) * (folded[input * outputs + output] ?? 0);
    return sum;
  });
  return { inputs, outputs, weights: folded, bias: shiftedBias };
}
