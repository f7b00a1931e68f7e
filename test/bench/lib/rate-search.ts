// The highest rate that holds a bound on the p99: which rate to try next, and when a trial has held it.

/** Of a claim that the p99 is within a bound. With this one 459 samples may have none over it, 662 may have one, as in MLPerf. */
export const CONFIDENCE = 0.99;
const PERCENTILE = 0.99;
/** How far a search goes beyond what it was told to begin with. */
const MAX_STEPS_OUT = 5;
const STEP_OUT = 1.4;

/** Fewer samples than this show nothing about a p99 as soon as one of them is over the bound. */
export const MIN_SAMPLES = 662;

/**
 * Whether `over` of `n` samples over a bound leave no doubt that the p99 is within it: if it were not, so few of them
 * would come by chance less often than 1 - `confidence` (the binomial distribution).
 */
export function holdsP99(n: number, over: number, confidence = CONFIDENCE): boolean {
  let logTerm = n * Math.log(PERCENTILE); // of many samples the first terms are too small for a number
  let sum = Math.exp(logTerm);
  for (let k = 1; k <= over; k++) {
    logTerm += Math.log(((n - k + 1) / k) * ((1 - PERCENTILE) / PERCENTILE));
    sum += Math.exp(logTerm);
  }
  return sum <= 1 - confidence;
}

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
    if (held !== undefined && failed !== undefined) return failed / held <= resolution ? undefined : Math.sqrt(held * failed);
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
