// Seeded randomness for a load: arrival times and the choice of inputs.

import { seededRandom } from "../../toolchain/seeded-random.ts";

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
