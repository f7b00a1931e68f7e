// Pseudorandom numbers: the same seed gives the same sequence on every machine.

/** Mulberry32, which is small, fast, and good enough for sampling. @returns a function that draws uniformly from [0, 1) */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Shuffles in place (Fisher–Yates). @returns the same items */
export function shuffle<Item, Items extends { readonly length: number; [index: number]: Item }>(
  items: Items,
  random: () => number,
): Items {
  for (let last = items.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [items[last], items[other]] = [items[other] as Item, items[last] as Item];
  }
  return items;
}
