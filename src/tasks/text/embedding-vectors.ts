// Embedding vectors: pools them from a graph's outputs, normalizes them to length 1, and truncates their dimensions.

import { coreErrors } from "../../core/common-errors.ts";
import { expectFloat32Tensor, type NamedTensors } from "../../core/tensor.ts";

/** Pooling of the manifest: `graph` pools inside the graph; `mean` and `cls` use all tokens or the first token. */
export interface PoolingConfig {
  readonly output: string;
  readonly pooling: "graph" | "mean" | "cls";
}

/**
 * @param outputs the graph's outputs: FP32 [rows, dimensions] if the graph pools, or else [rows, tokens, dimensions]
 * @param tokenCounts number of tokens of each row, without padding
 * @returns a vector per row, in its own memory
 * @throws session_failed for outputs that contradict the manifest or are not finite
 */
export function poolVectors(
  outputs: NamedTensors,
  { output, pooling }: PoolingConfig,
  tokenCounts: readonly number[],
  dimensions: number,
): Float32Array[] {
  const { shape, data } = expectFloat32Tensor(output, outputs[output], pooling === "graph" ? 2 : 3);
  const width = pooling === "graph" ? 1 : (shape[1] ?? 0);
  const minWidth = pooling === "mean" ? Math.max(1, ...tokenCounts) : 1;
  if (shape[0] !== tokenCounts.length || shape.at(-1) !== dimensions || width < minWidth) {
    throw coreErrors.sessionFailed(
      `${output} has shape [${shape.join(", ")}] for ${tokenCounts.length} texts of at most ${minWidth} tokens, with ${dimensions} dimensions`,
    );
  }
  return tokenCounts.map((count, row) => {
    const states = data.subarray(row * width * dimensions, (row + 1) * width * dimensions);
    const vector =
      pooling === "mean" ? meanPool(states, count, dimensions) : states.slice(0, dimensions);
    if (!vector.every(Number.isFinite))
      throw coreErrors.sessionFailed(`${output} is not finite for text ${row}`);
    return vector;
  });
}

function meanPool(states: Float32Array, count: number, dimensions: number): Float32Array {
  const sum = new Float64Array(dimensions);
  for (let index = 0; index < count * dimensions; index++)
    sum[index % dimensions] = (sum[index % dimensions] ?? 0) + (states[index] ?? 0);
  return Float32Array.from(sum, (value) => value / count);
}

/** Scales a vector to length 1; a zero vector stays zero. */
export function normalizeVector(vector: Float32Array): Float32Array {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return length === 0 ? vector : vector.map((value) => value / length);
}

/**
 * Truncates a vector to its first dimensions. Models trained for truncation concentrate information in them (Kusupati et
 * al. 2022, "Matryoshka Representation Learning").
 * @param normalize whether the truncated vector is scaled to length 1 again
 */
export function truncateVector(
  vector: Float32Array,
  dimensions: number,
  normalize: boolean,
): Float32Array {
  if (dimensions >= vector.length) return vector;
  const truncated = vector.slice(0, dimensions);
  return normalize ? normalizeVector(truncated) : truncated;
}
