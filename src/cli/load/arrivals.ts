// When the calls of an open loop are due.

import type { Random } from "./random.ts";

/** poisson: as users come who do not know of each other. constant: at even distances. */
export const ARRIVALS = ["poisson", "constant"] as const;
export type Arrivals = (typeof ARRIVALS)[number];

/** @returns ascending milliseconds from the beginning, all below `durationMs` */
export function scheduleArrivalsMs(
  arrivals: Arrivals,
  ratePerSecond: number,
  durationMs: number,
  random: Random,
): Float64Array {
  const gapMs = 1_000 / ratePerSecond;
  if (arrivals === "constant")
    return Float64Array.from(
      { length: Math.ceil(durationMs / gapMs) },
      (_, index) => index * gapMs,
    );
  const due: number[] = [];
  for (let atMs = random.exponential(gapMs); atMs < durationMs; atMs += random.exponential(gapMs))
    due.push(atMs);
  return Float64Array.from(due);
}

/** For so many calls, however long they take. */
export function schedulePoissonMs(
  count: number,
  ratePerSecond: number,
  random: Random,
): Float64Array {
  let atMs = 0;
  return Float64Array.from(
    { length: count },
    () => (atMs += random.exponential(1_000 / ratePerSecond)),
  );
}
