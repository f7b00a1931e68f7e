// Which of several regions is asked: the power of two choices (Mitzenmacher 2001) among those that are about as near and as
// quick as the best. Asking always the best would send all isolates to the one that was idle a moment ago.

export interface Candidate {
  /** How long a call is expected to take. */
  readonly expectedMs: number;
  /** Calls that are under way from here. */
  readonly inFlight: number;
}

/** Times the best one's. Regions farther away than that are no choice while the near ones are well. */
const MAX_LATENCY_RATIO = 1.5;

/** @param random from 0 to 1 @returns undefined for none */
export function chooseRegion<Region extends Candidate>(
  regions: readonly Region[],
  random: () => number,
): Region | undefined {
  const bestMs = Math.min(...regions.map(({ expectedMs }) => expectedMs));
  const near = regions.filter(({ expectedMs }) => expectedMs <= MAX_LATENCY_RATIO * bestMs);
  const first = pickRandom(near, random);
  const second = pickRandom(
    near.filter((one) => one !== first),
    random,
  );
  if (first === undefined || second === undefined) return first;
  return expectedCost(second) < expectedCost(first) ? second : first;
}

const pickRandom = <Item>(items: readonly Item[], random: () => number): Item | undefined =>
  items[Math.floor(random() * items.length)];
const expectedCost = ({ expectedMs, inFlight }: Candidate): number => expectedMs * (1 + inFlight);
