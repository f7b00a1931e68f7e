// Computes p-values of the hypothesis "the risk is above epsilon". They are exact for every number
// of samples, without limit theorems and Monte Carlo methods.

import type { RiskGuarantee } from "../../registry/manifest.ts";

export type RiskKind = RiskGuarantee["what"];

/** Comparison of a cascade with its last tier on some samples. */
export interface WinLossCounts {
  readonly samples: number;
  /**
   * Answers that differ from the last tier's; for `accuracy`, only if the cascade is wrong and the
   * last tier right.
   */
  readonly losses: number;
  /** Answers of the cascade that are right where the last tier is wrong; 0 for `disagreement`. */
  readonly wins: number;
}

/** Computes (losses - wins) / samples. */
export const empiricalRisk = ({ samples, losses, wins }: WinLossCounts): number =>
  (losses - wins) / Math.max(1, samples);

/**
 * Upper bound of the probability of losses this small if the risk is at least `epsilon` and the
 * samples are independent draws from production traffic. Under this hypothesis, it is at most
 * `delta` with a probability of at most `delta`.
 */
export function computeRiskPValue(kind: RiskKind, counts: WinLossCounts, epsilon: number): number {
  return kind === "disagreement"
    ? binomialCdf(counts.samples, epsilon, counts.losses)
    : bergerBoosPValue(counts, epsilon);
}

/** Part of the p-value that covers the unknown probability of a win. */
const NUISANCE_LEVEL = 0.002;
const NUISANCE_GRID_CELLS = 64;

/**
 * Losses and wins are counts of a trinomial with the probabilities a and b. The risk is a - b, and
 * b is a nuisance parameter. The p-value is the maximum over all b up to its Clopper-Pearson bound,
 * plus the probability that b exceeds that bound. Source: Berger and Boos 1994, "P Values Maximized
 * Over a Confidence Set for the Nuisance Parameter". The difference of losses and wins grows with a
 * and falls with b. Small differences are therefore most likely for a small a and a large b.
 * Consequently, the ends of a cell of b bound its interior.
 */
function bergerBoosPValue({ samples, losses, wins }: WinLossCounts, epsilon: number): number {
  const maxWinProbability = Math.min(
    clopperPearsonUpper(samples, wins, NUISANCE_LEVEL),
    (1 - epsilon) / 2,
  );
  let largest = 0;
  for (let cell = 0; cell < NUISANCE_GRID_CELLS && largest < 1; cell++) {
    const [low, high] = [
      (maxWinProbability * cell) / NUISANCE_GRID_CELLS,
      (maxWinProbability * (cell + 1)) / NUISANCE_GRID_CELLS,
    ];
    largest = Math.max(
      largest,
      trinomialDifferenceCdf(samples, epsilon + low, high, losses - wins),
    );
  }
  return Math.min(1, largest + NUISANCE_LEVEL);
}

const NEGLIGIBLE = 1e-9;

/**
 * Computes P(losses - wins <= max) of a trinomial with the probabilities a and b, too large by less
 * than 1e-9.
 */
function trinomialDifferenceCdf(samples: number, a: number, b: number, max: number): number {
  let [sum, coveredMass] = [0, 0];
  for (let wins = 0; wins <= samples && 1 - coveredMass > NEGLIGIBLE; wins++) {
    const probability = Math.exp(logBinomialPmf(samples, b, wins));
    coveredMass += probability;
    sum += probability * binomialCdf(samples - wins, Math.min(1, a / (1 - b)), max + wins);
  }
  return Math.min(1, sum + Math.max(0, 1 - coveredMass));
}

/**
 * Computes the success probability at which at most `successes` successes have the probability
 * `alpha`.
 */
export function clopperPearsonUpper(samples: number, successes: number, alpha: number): number {
  let [low, high] = [0, 1];
  if (successes >= samples) return 1;
  for (let step = 0; step < 50; step++) {
    const middle = (low + high) / 2;
    if (binomialCdf(samples, middle, successes) > alpha) low = middle;
    else high = middle;
  }
  return high;
}

/** Computes P(Binomial(samples, probability) <= max). */
export function binomialCdf(samples: number, probability: number, max: number): number {
  if (max < 0) return 0;
  if (max >= samples || probability <= 0) return 1;
  if (probability >= 1) return 0;
  const odds = probability / (1 - probability);
  // The sum starts at the most likely term and omits terms below 1e-17 of it.
  const start = Math.min(max, Math.floor(samples * probability));
  const first = Math.exp(logBinomialPmf(samples, probability, start));
  let sum = first;
  for (let count = start, term = first; count > 0 && term > sum * 1e-17; count--)
    sum += term *= count / ((samples - count + 1) * odds);
  for (let count = start + 1, term = first; count <= max; count++)
    sum += term *= ((samples - count + 1) * odds) / count;
  return Math.min(1, sum);
}

function logBinomialPmf(samples: number, probability: number, count: number): number {
  if (probability <= 0) return count === 0 ? 0 : Number.NEGATIVE_INFINITY;
  return (
    logFactorial(samples) -
    logFactorial(count) -
    logFactorial(samples - count) +
    count * Math.log(probability) +
    (samples - count) * Math.log1p(-probability)
  );
}

const logFactorials = [0];
function logFactorial(value: number): number {
  for (let next = logFactorials.length; next <= value; next++)
    logFactorials.push((logFactorials[next - 1] ?? 0) + Math.log(next));
  return logFactorials[value] ?? 0;
}

/**
 * Minimum number of samples with which a cascade without losses has a p-value of at most `delta`.
 */
export const minSamplesForBound = (epsilon: number, delta: number): number =>
  Math.ceil(Math.log(delta) / Math.log1p(-epsilon));
