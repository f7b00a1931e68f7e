// Seeded randomness for benchmarks.

export interface Random {
  /** Uniform in [0, 1). */
  next(): number;
  /** Exponential with the given mean: the gaps of a Poisson process. */
  exponential(mean: number): number;
  pick<Item>(items: readonly Item[]): Item;
}

/** Mulberry32: small, fast, and good enough to order requests with. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
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
