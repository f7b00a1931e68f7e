// Chooses a region by the power of two choices (Mitzenmacher 2001), among those nearly as fast as the best one. If all
// isolates called the best region, they would overload whichever was idle a moment ago.

export interface Candidate {
  readonly expectedMs: number;
  /** Calls of this isolate that are in flight. */
  readonly inFlight: number;
}

/** Upper bound of the expected latency, as a multiple of the best one. Slower regions are not candidates. */
const MAX_LATENCY_RATIO = 1.5;

/** @param random returns numbers from 0 to 1 @returns undefined if there are no regions */
export function chooseRegion<Region extends Candidate>(
  regions: readonly Region[],
  random: () => number,
): Region | undefined {
  const bestMs = Math.min(...regions.map(({ expectedMs }) => expectedMs));
  const near = regions.filter(({ expectedMs }) => expectedMs <= MAX_LATENCY_RATIO * bestMs);
  const first = pickRandom(near, random);
  const second = pickRandom(
    near.filter((region) => region !== first),
    random,
  );
  if (first === undefined || second === undefined) return first;
  return expectedCost(second) < expectedCost(first) ? second : first;
}

const pickRandom = <Item>(items: readonly Item[], random: () => number): Item | undefined =>
  items[Math.floor(random() * items.length)];
const expectedCost = ({ expectedMs, inFlight }: Candidate): number => expectedMs * (1 + inFlight);
