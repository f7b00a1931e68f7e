// Weights rounded as quantisation will round them, in FP32: training that goes through them learns to bear it
// (Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference").
// Gradients are taken as if there was no rounding: the straight-through estimator, Bengio et al. 2013.

/** Steps from 0 to the largest weight: INT8, symmetric (quantize/quantization-scheme.ts). */
export const WEIGHT_QUANT_MAX = 127;

/** FP32's smallest normal number. */
const MIN_SCALE = 2 ** -126;

/** @param matrix [n, columns] @param into gets it with each column rounded to its own INT8 steps */
export function fakeQuantizeColumns(
  matrix: Float32Array,
  columns: number,
  into: Float32Array,
): void {
  const scales = new Float32Array(columns);
  for (let index = 0; index < matrix.length; index++) {
    const size = Math.abs(matrix[index] ?? 0);
    if (size > (scales[index % columns] ?? 0)) scales[index % columns] = size;
  }
  for (let column = 0; column < columns; column++) {
    const scale = (scales[column] ?? 0) / WEIGHT_QUANT_MAX;
    scales[column] = scale < MIN_SCALE ? 1 : scale; // then all are taken for 0
  }
  for (let start = 0; start < matrix.length; start += columns) {
    for (let column = 0; column < columns; column++) {
      const scale = scales[column] ?? 1;
      into[start + column] = Math.round((matrix[start + column] ?? 0) / scale) * scale;
    }
  }
}
