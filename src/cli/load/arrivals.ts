// Arrivals: schedules the calls of an open loop.

import type { Random } from "./random.ts";

/** Arrival processes. `poisson` models independent users; `constant` has equal gaps. */
export const ARRIVALS = ["poisson", "constant"] as const;
export type Arrivals = (typeof ARRIVALS)[number];

/** Returns ascending due times in milliseconds from the start, all below `durationMs`. */
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

/** Schedules a fixed number of calls, for whatever duration they need. */
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
