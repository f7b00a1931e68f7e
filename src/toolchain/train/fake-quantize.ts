// Fake quantization: rounds FP32 weights to the steps of INT8, so that training adapts to the
// rounding. Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient
// Integer-Arithmetic-Only Inference". Gradients ignore the rounding (straight-through estimator,
// Bengio et al. 2013).

/**
 * Number of steps from 0 to the largest weight in symmetric INT8 (quantize/quantization-scheme.ts).
 */
export const WEIGHT_QUANT_MAX = 127;

/** Smallest normal FP32 number. */
const MIN_SCALE = 2 ** -126;

/**
 * @param matrix [n, columns]
 * @param into receives the matrix, each column rounded to its own INT8 steps
 */
export function fakeQuantizeColumns(
  matrix: Float32Array,
  columns: number,
  into: Float32Array,
): void {
  const scales = new Float32Array(columns);
  for (let index = 0; index < matrix.length; index++) {
    const magnitude = Math.abs(matrix[index] ?? 0);
    if (magnitude > (scales[index % columns] ?? 0)) scales[index % columns] = magnitude;
  }
  for (let column = 0; column < columns; column++) {
    const scale = (scales[column] ?? 0) / WEIGHT_QUANT_MAX;
    scales[column] = scale < MIN_SCALE ? 1 : scale; // A column of subnormal weights rounds to 0.
  }
  for (let start = 0; start < matrix.length; start += columns) {
    for (let column = 0; column < columns; column++) {
      const scale = scales[column] ?? 1;
      into[start + column] = Math.round((matrix[start + column] ?? 0) / scale) * scale;
    }
  }
}
