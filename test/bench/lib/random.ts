// Seeded randomness for benchmarks.
import type { Random } from "../../../src/cli/load/random.ts";

export { createRandom, type Random } from "../../../src/cli/load/random.ts";

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
