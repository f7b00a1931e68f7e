// The highest rate that holds a bound: which rate to try next.

/** How far a search goes beyond what it was told to begin with. */
const MAX_STEPS_OUT = 5;
const STEP_OUT = 1.4;

export interface RateSearch {
  /** What to try; undefined when it is done. */
  readonly next: number | undefined;
  /** The highest that held; undefined if none did. */
  readonly highest: number | undefined;
  /** Whether a trial at `next` held the bound. */
  tell(holds: boolean): void;
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
    if (stepsOut++ >= MAX_STEPS_OUT) return undefined;
    return held === undefined ? (failed ?? low) / STEP_OUT : held * STEP_OUT;
  }

  return {
    get next() {
      return next;
    },
    get highest() {
      return held;
    },
    tell(holds) {
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
