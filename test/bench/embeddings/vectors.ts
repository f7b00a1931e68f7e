// Vectors: computes vectors of texts with a graph, and measures their similarity to others and their retrieval accuracy.
import type { NamedTensors } from "../../../src/core/tensor.ts";
import {
  normalizeVector,
  poolVectors,
  truncateVector,
} from "../../../src/tasks/text/embedding-vectors.ts";

export interface LabeledText {
  readonly text: string;
  readonly label: string;
}

type Run = (inputs: NamedTensors) => Promise<NamedTensors>;

/** Computes the vectors of one text at a time, like the edge. */
export async function computeVectors(
  run: Run,
  inputs: readonly NamedTensors[],
  output: string,
  dimensions: number,
): Promise<Float32Array[]> {
  const vectors: Float32Array[] = [];
  for (const tensors of inputs)
    vectors.push(
      ...poolVectors(await run(tensors), { output, pooling: "graph" }, [1], dimensions).map(
        normalizeVector,
      ),
    );
  return vectors;
}

/** Cosine similarity of unit vectors. */
export const cosine = (one: Float32Array, other: Float32Array): number =>
  one.reduce((sum, value, index) => sum + value * (other[index] ?? 0), 0);

export function pairwiseCosines(
  vectors: readonly Float32Array[],
  others: readonly Float32Array[],
): { readonly mean: number; readonly worst: number; readonly p01: number } {
  const ascending = vectors
    .map((vector, index) => cosine(vector, others[index] ?? new Float32Array()))
    .toSorted((a, b) => a - b);
  return {
    mean: ascending.reduce((sum, one) => sum + one, 0) / ascending.length,
    worst: ascending[0] ?? Number.NaN,
    p01: ascending[Math.floor(ascending.length / 100)] ?? Number.NaN,
  };
}

export interface LabeledVectors {
  readonly vectors: readonly Float32Array[];
  readonly labels: readonly string[];
}

/** The share of queries whose nearest neighbor has their label. */
export function measureRetrievalAccuracy(
  queries: LabeledVectors,
  index: LabeledVectors,
  dimensions: number,
): number {
  const cut = ({ vectors }: LabeledVectors) =>
    vectors.map((vector) => truncateVector(vector, dimensions, true));
  const known = cut(index);
  const right = cut(queries).filter((query, position) => {
    let [best, nearest] = [-2, -1];
    for (let candidate = 0; candidate < known.length; candidate++) {
      const found = dot(query, known[candidate] ?? query);
      if (found > best) [best, nearest] = [found, candidate];
    }
    return index.labels[nearest] === queries.labels[position];
  });
  return right.length / queries.vectors.length;
}

function dot(one: Float32Array, other: Float32Array): number {
  let sum = 0;
  for (let index = 0; index < one.length; index++) sum += (one[index] ?? 0) * (other[index] ?? 0);
  return sum;
}
