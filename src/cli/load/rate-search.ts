// Rate search: chooses the next rate in a search for the highest rate that meets a bound.

/** Maximum number of steps beyond the initial range. */
const MAX_EXPANSIONS = 5;
const EXPANSION_FACTOR = 1.4;

export interface RateSearch {
  /** Rate of the next trial. Undefined when the search is done. */
  readonly nextRate: number | undefined;
  /** Highest rate that met the bound. Undefined if none did. */
  readonly highestRate: number | undefined;
  /** Records whether the trial at `nextRate` met the bound. */
  record(holds: boolean): void;
}

export interface RateSearchOptions {
  /** Initial range: a rate that probably meets the bound, and one that probably does not. */
  readonly low: number;
  readonly high: number;
  /** The search ends when the ratio of the lowest failed to the highest successful rate is at most this. */
  readonly resolution: number;
}

/** Creates a search. A rate counts as failed after two failures, because other processes may have caused the first. */
export function createRateSearch({ low, high, resolution }: RateSearchOptions): RateSearch {
  let held: number | undefined;
  let failed: number | undefined;
  let hasFailedOnce = false;
  let expansions = 0;
  let nextRate: number | undefined = low;

  function chooseNext(): number | undefined {
    if (held !== undefined && failed !== undefined)
      return failed / held <= resolution ? undefined : Math.sqrt(held * failed);
    if (held === low) return high;
    if (expansions++ >= MAX_EXPANSIONS) return undefined;
    return held === undefined ? (failed ?? low) / EXPANSION_FACTOR : held * EXPANSION_FACTOR;
  }

  return {
    get nextRate() {
      return nextRate;
    },
    get highestRate() {
      return held;
    },
    record(holds) {
      if (nextRate === undefined) return;
      if (!holds && !hasFailedOnce) {
        hasFailedOnce = true;
        return;
      }
      hasFailedOnce = false;
      if (holds) held = nextRate;
      else failed = nextRate;
      nextRate = chooseNext();
    },
  };
}
