// Vectors of texts: read off a graph's outputs, scaled to length 1, cut to fewer dimensions.

import { coreErrors } from "../../core/common-errors.ts";
import { expectFloat32Tensor, type NamedTensors } from "../../core/tensor.ts";

/** As in the manifest: `graph` has pooled already; the others take the mean over a text's tokens, or its first token. */
export interface PoolingConfig {
  readonly output: string;
  readonly pooling: "graph" | "mean" | "cls";
}

/**
 * @param outputs of a graph: FP32 [rows, dimensions], or [rows, tokens, dimensions] where it has not pooled
 * @param tokens of each row; what a row was padded with beyond them does not count
 * @returns a vector for each row, in memory of its own
 * @throws session_failed for outputs that are not what the manifest says, or not finite
 */
export function poolVectors(
  outputs: NamedTensors,
  { output, pooling }: PoolingConfig,
  tokens: readonly number[],
  dimensions: number,
): Float32Array[] {
  const { shape, data } = expectFloat32Tensor(output, outputs[output], pooling === "graph" ? 2 : 3);
  const width = pooling === "graph" ? 1 : (shape[1] ?? 0);
  const needed = pooling === "mean" ? Math.max(1, ...tokens) : 1;
  if (shape[0] !== tokens.length || shape.at(-1) !== dimensions || width < needed) {
    throw coreErrors.sessionFailed(
      `${output} has shape [${shape.join(", ")}] for ${tokens.length} texts of ${needed} tokens at most, with ${dimensions} dimensions`,
    );
  }
  return tokens.map((count, row) => {
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

/** Of length 1; zeros stay zeros. */
export function normalizeVector(vector: Float32Array): Float32Array {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return length === 0 ? vector : vector.map((value) => value / length);
}

/**
 * Its first dimensions: a model that was trained for it has the most in these (Kusupati et al. 2022, "Matryoshka Representation Learning").
 * @param normalise whether what is left is scaled to length 1 again
 */
export function truncateVector(
  vector: Float32Array,
  dimensions: number,
  normalise: boolean,
): Float32Array {
  if (dimensions >= vector.length) return vector;
  const first = vector.slice(0, dimensions);
  return normalise ? normalizeVector(first) : first;
}
