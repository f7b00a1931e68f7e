// P-values of "the risk is above epsilon", exact for every number of samples: no limit theorem, no Monte Carlo.

import type { RiskGuarantee } from "../../registry/manifest.ts";

export type RiskKind = RiskGuarantee["what"];

/** What a part of the samples says of a cascade against its last tier. */
export interface WinLossCounts {
  readonly samples: number;
  /** Answered otherwise than by the last tier; with `accuracy`, wrong where the last tier is right. */
  readonly losses: number;
  /** Right where the last tier is wrong; 0 with `disagreement`. */
  readonly wins: number;
}

/** (lost - won) / samples */
export const empiricalRisk = ({ samples, losses: lost, wins: won }: WinLossCounts): number =>
  (lost - won) / Math.max(1, samples);

/**
 * An upper bound of the chance to see losses as small as these, if the risk were `epsilon` or more and samples were drawn
 * independently of each other from what is served. So it falls to `delta` or lower with a chance of `delta` at most.
 */
export function computeRiskPValue(what: RiskKind, losses: WinLossCounts, epsilon: number): number {
  return what === "disagreement"
    ? binomialCdf(losses.samples, epsilon, losses.losses)
    : bergerBoosPValue(losses, epsilon);
}

/** The share of the p-value that goes to not knowing how often the cascade wins. */
const NUISANCE_LEVEL = 0.002;
const NUISANCE_GRID_CELLS = 64;

/**
 * Lost and won are counts of a trinomial with the chances a and b; the risk is a - b, and b is not known. Berger and Boos
 * 1994, "P Values Maximized Over a Confidence Set for the Nuisance Parameter": the largest p-value over the b that are at
 * most its Clopper-Pearson bound, plus the chance that b is above it. As lost - won grows with a and falls with b, it is
 * the more likely to be small the smaller a and the larger b: the ends of a cell of b's bound what is between them.
 */
function bergerBoosPValue(
  { samples, losses: lost, wins: won }: WinLossCounts,
  epsilon: number,
): number {
  const most = Math.min(clopperPearsonUpper(samples, won, NUISANCE_LEVEL), (1 - epsilon) / 2);
  let largest = 0;
  for (let cell = 0; cell < NUISANCE_GRID_CELLS && largest < 1; cell++) {
    const [low, high] = [
      (most * cell) / NUISANCE_GRID_CELLS,
      (most * (cell + 1)) / NUISANCE_GRID_CELLS,
    ];
    largest = Math.max(largest, trinomialDifferenceCdf(samples, epsilon + low, high, lost - won));
  }
  return Math.min(1, largest + NUISANCE_LEVEL);
}

const NEGLIGIBLE = 1e-9;

/** P(lost - won <= most) of a trinomial with these chances of `lost` and `won`, from above by less than 1e-9. */
function trinomialDifferenceCdf(samples: number, a: number, b: number, most: number): number {
  let [sum, seen] = [0, 0];
  for (let won = 0; won <= samples && 1 - seen > NEGLIGIBLE; won++) {
    const chance = Math.exp(logBinomialPmf(samples, b, won));
    seen += chance;
    sum += chance * binomialCdf(samples - won, Math.min(1, a / (1 - b)), most + won);
  }
  return Math.min(1, sum + Math.max(0, 1 - seen));
}

/** The chance of a success at which `successes` or fewer of them have the chance `alpha`. */
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

/** P(Binomial(samples, chance) <= most) */
export function binomialCdf(samples: number, chance: number, most: number): number {
  if (most < 0) return 0;
  if (most >= samples || chance <= 0) return 1;
  if (chance >= 1) return 0;
  const odds = chance / (1 - chance);
  // From the likeliest term down: what is left out is less than 1e-17 of it.
  const start = Math.min(most, Math.floor(samples * chance));
  const first = Math.exp(logBinomialPmf(samples, chance, start));
  let sum = first;
  for (let count = start, term = first; count > 0 && term > sum * 1e-17; count--)
    sum += term *= count / ((samples - count + 1) * odds);
  for (let count = start + 1, term = first; count <= most; count++)
    sum += term *= ((samples - count + 1) * odds) / count;
  return Math.min(1, sum);
}

function logBinomialPmf(samples: number, chance: number, count: number): number {
  if (chance <= 0) return count === 0 ? 0 : Number.NEGATIVE_INFINITY;
  return (
    logFactorial(samples) -
    logFactorial(count) -
    logFactorial(samples - count) +
    count * Math.log(chance) +
    (samples - count) * Math.log1p(-chance)
  );
}

const logFactorials = [0];
function logFactorial(value: number): number {
  for (let next = logFactorials.length; next <= value; next++)
    logFactorials.push((logFactorials[next - 1] ?? 0) + Math.log(next));
  return logFactorials[value] ?? 0;
}

/** The fewest samples with which a cascade that loses nothing at all has this p-value. */
export const minSamplesForBound = (epsilon: number, delta: number): number =>
  Math.ceil(Math.log(delta) / Math.log1p(-epsilon));
