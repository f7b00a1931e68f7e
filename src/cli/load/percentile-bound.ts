// What samples say about a percentile of all answers, with confidence: by how many of them are over a bound (the binomial
// distribution), whatever the distribution of the latencies is.

/** With this one, 459 samples may have none over a bound on the p99, 662 may have one, as in MLPerf. */
export const CONFIDENCE = 0.99;

/** Fewer samples than this show nothing about a p99 as soon as one of them is over the bound. */
export const MIN_P99_SAMPLES = 662;

/**
 * Whether `over` of `n` samples over a bound leave no doubt that the percentile is within it: if it were not, so few of them
 * would come by chance less often than 1 - `confidence`.
 * @param share of all answers that is to be within the bound: 0.99 for a p99
 */
export function isWithinBound(
  n: number,
  over: number,
  share: number,
  confidence = CONFIDENCE,
): boolean {
  let logTerm = n * Math.log(share); // of many samples the first terms are too small for a number
  let sum = Math.exp(logTerm);
  for (let k = 1; k <= over && sum <= 1 - confidence; k++) {
    logTerm += Math.log(((n - k + 1) / k) * ((1 - share) / share));
    sum += Math.exp(logTerm);
  }
  return sum <= 1 - confidence;
}

/** How many of `n` samples may be over a bound that `isWithinBound` holds for; undefined where even none would not show it. */
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

/** So many samples show a percentile to be within a bound that none of them is over. */
export const minSamples = (share: number, confidence = CONFIDENCE): number =>
  Math.ceil(Math.log(1 - confidence) / Math.log(share));
