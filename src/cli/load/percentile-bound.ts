// Percentile bound: infers from samples whether a percentile of all responses is within a bound, with confidence.
// It counts violations, which are binomially distributed for any distribution of latencies.

/** For a bound on the p99, 459 samples may have no violation and 662 may have one, as in MLPerf. */
export const CONFIDENCE = 0.99;

/** With fewer samples, a single violation of a bound on the p99 leaves nothing shown. */
export const MIN_P99_SAMPLES = 662;

/**
 * Tests whether the percentile is within the bound, given `over` violations in `n` samples. If it were not, the probability
 * of at most `over` violations would be below 1 - `confidence`.
 * @param share share of all responses that must be within the bound: 0.99 for a p99
 */
export function isWithinBound(
  n: number,
  over: number,
  share: number,
  confidence = CONFIDENCE,
): boolean {
  let logTerm = n * Math.log(share); // with many samples, the first terms underflow
  let sum = Math.exp(logTerm);
  for (let k = 1; k <= over && sum <= 1 - confidence; k++) {
    logTerm += Math.log(((n - k + 1) / k) * ((1 - share) / share));
    sum += Math.exp(logTerm);
  }
  return sum <= 1 - confidence;
}

/** Returns the maximum violations for which `isWithinBound` holds. Undefined if even none would not show it. */
export function maxViolations(
  n: number,
  share: number,
  confidence = CONFIDENCE,
): number | undefined {
  if (!isWithinBound(n, 0, share, confidence)) return undefined;
  let [held, failed] = [0, n + 1];
  while (failed - held > 1) {
    const middle = (held + failed) >> 1;
    if (isWithinBound(n, middle, share, confidence)) held = middle;
    else failed = middle;
  }
  return held;
}

/** Returns the number of samples that show a percentile if none of them violates the bound. */
export const minSamples = (share: number, confidence = CONFIDENCE): number =>
  Math.ceil(Math.log(1 - confidence) / Math.log(share));
