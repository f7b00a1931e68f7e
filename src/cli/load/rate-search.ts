// The highest rate that holds a bound: which rate to try next.

/** How far a search goes beyond what it was told to begin with. */
const MAX_EXPANSIONS = 5;
const EXPANSION_FACTOR = 1.4;

export interface RateSearch {
  /** What to try; undefined when it is done. */
  readonly nextRate: number | undefined;
  /** The highest that held; undefined if none did. */
  readonly highestRate: number | undefined;
  /** Whether a trial at `next` held the bound. */
  record(holds: boolean): void;
}

export interface RateSearchOptions {
  /** Where to begin: a rate that should hold, and one that should not. */
  readonly low: number;
  readonly high: number;
  /** Ends when the lowest that failed is less than so many times the highest that held. */
  readonly resolution: number;
}

/** A rate counts as failed when it fails twice: something else may have had the machine the first time. */
export function createRateSearch({ low, high, resolution }: RateSearchOptions): RateSearch {
  let held: number | undefined;
  let failed: number | undefined;
  let hasFailedOnce = false;
  let stepsOut = 0;
  let next: number | undefined = low;

  function choose(): number | undefined {
    if (held !== undefined && failed !== undefined)
      return failed / held <= resolution ? undefined : Math.sqrt(held * failed);
    if (held === low) return high;
    if (stepsOut++ >= MAX_EXPANSIONS) return undefined;
    return held === undefined ? (failed ?? low) / EXPANSION_FACTOR : held * EXPANSION_FACTOR;
  }

  return {
    get nextRate() {
      return next;
    },
    get highestRate() {
      return held;
    },
    record(holds) {
      if (next === undefined) return;
      if (!holds && !hasFailedOnce) {
        hasFailedOnce = true;
        return;
      }
      hasFailedOnce = false;
      if (holds) held = next;
      else failed = next;
      next = choose();
    },
  };
}
