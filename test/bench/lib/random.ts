// Seeded randomness for benchmarks.
import { seededRandom } from "../../../src/build/seeded-random.ts";

export interface Random {
  /** Uniform in [0, 1). */
  next(): number;
  /** Exponential with the given mean: the gaps of a Poisson process. */
  exponential(mean: number): number;
  pick<Item>(items: readonly Item[]): Item;
}

export function createRandom(seed: number): Random {
  const next = seededRandom(seed);
  return {
    next,
    exponential: (mean) => -mean * Math.log(1 - next()),
    pick: (items) => items[Math.floor(next() * items.length)] as (typeof items)[number],
  };
}

/** Draws ranks 0 to count - 1 with probability proportional to 1 / (rank + 1)^exponent (Zipf's law). */
export function createZipf(random: Random, count: number, exponent: number): () => number {
  const cumulative: number[] = [];
  let sum = 0;
  for (let rank = 1; rank <= count; rank++) cumulative.push((sum += rank ** -exponent));
  return () => {
    const target = random.next() * sum;
    let [low, high] = [0, count - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((cumulative[middle] ?? sum) < target) low = middle + 1;
      else high = middle;
    }
    return low;
  };
}
