// Orders threshold vectors for testing: from low risk to high risk, and only the Pareto front of
// risk and cost (Laufer-Goldshlager et al. 2023, "Efficiently Controlling Multiple Risks with
// Pareto Testing").

import { empiricalRisk, type RiskKind } from "./p-values.ts";
import { type ProfiledTier, type Thresholds, simulateCascade } from "./simulate-cascade.ts";

export interface ThresholdPathOptions {
  readonly what: RiskKind;
  readonly epsilon: number;
  readonly deadlineMs: number;
}

const MAX_VECTORS = 4_096;
const MAX_LEVELS = 200;
const MAX_PATH_LENGTH = 200;
/**
 * Maximum share of the samples whose tiers exceed the deadline; 0.01 means that the p99 latency
 * meets it.
 */
const MAX_DEADLINE_MISS_SHARE = 0.01;
/**
 * Risk penalty of early exits, relative to epsilon. With few samples, many thresholds seem to have
 * no risk, and the path would otherwise start with too many exits.
 */
const EARLY_EXIT_PENALTY = 0.1;
/**
 * Standard errors that are added to the risk. Exits with many wins and losses are an unsafe start,
 * even with more wins.
 */
const RISK_MARGIN_STANDARD_ERRORS = 2;

/**
 * Builds the Pareto front of risk and cost over all combinations of levels with early exits.
 * @param samples positions of the samples for the path, disjoint from the tested ones
 */
export function buildThresholdPath(
  tiers: readonly ProfiledTier[],
  samples: readonly number[],
  groundTruth: readonly string[],
  { what, epsilon, deadlineMs }: ThresholdPathOptions,
): Thresholds[] {
  const earlyTiers = tiers.slice(0, -1);
  const levelCount = Math.max(
    2,
    Math.min(MAX_LEVELS, Math.floor(MAX_VECTORS ** (1 / Math.max(1, earlyTiers.length)))),
  );
  const vectors = cartesianProduct(
    earlyTiers.map((tier) => computeConfidenceLevels(tier, samples, levelCount)),
  ).filter((thresholds) => thresholds.some((confidence) => confidence < 1));
  const simulated = vectors.map((thresholds) => {
    const { counts, shares, meanCost, deadlineMissShare } = simulateCascade(
      tiers,
      thresholds,
      samples,
      groundTruth,
      what,
      deadlineMs,
    );
    const exitShare = 1 - (shares.at(-1) ?? 0);
    const standardError = Math.sqrt(counts.losses + counts.wins) / Math.max(1, counts.samples);
    return {
      thresholds,
      meanCost,
      deadlineMissShare,
      risk:
        empiricalRisk(counts) +
        RISK_MARGIN_STANDARD_ERRORS * standardError +
        EARLY_EXIT_PENALTY * epsilon * exitShare,
    };
  });
  const withinDeadline = simulated
    .filter(({ deadlineMissShare }) => deadlineMissShare <= MAX_DEADLINE_MISS_SHARE)
    .toSorted((a, b) => a.risk - b.risk || a.meanCost - b.meanCost);
  const front: Thresholds[] = [];
  let cheapest = Number.POSITIVE_INFINITY;
  for (const { thresholds, meanCost } of withinDeadline) {
    if (meanCost >= cheapest) continue;
    cheapest = meanCost;
    front.push(thresholds);
  }
  const step = Math.max(1, front.length / MAX_PATH_LENGTH);
  return Array.from(
    { length: Math.min(front.length, MAX_PATH_LENGTH) },
    (_, index) => front[Math.floor(index * step)] ?? [],
  );
}

/**
 * Returns quantiles of the confidences that may exit, with 1 for no exits first and 0 for all exits
 * last.
 */
function computeConfidenceLevels(
  { answers }: ProfiledTier,
  samples: readonly number[],
  count: number,
): number[] {
  const confidences = samples
    .flatMap((sample) =>
      answers[sample]?.outOfScope === false ? [answers[sample].confidence] : [],
    )
    .toSorted((a, b) => b - a);
  const quantiles = Array.from(
    { length: count - 2 },
    (_, index) => confidences[Math.ceil(((index + 1) * confidences.length) / (count - 1)) - 1] ?? 1,
  );
  return [...new Set([1, ...quantiles.map((quantile) => Math.floor(quantile * 1e6) / 1e6), 0])];
}

function cartesianProduct(levels: readonly (readonly number[])[]): number[][] {
  return levels.reduce<number[][]>(
    (prefixes, tierLevels) =>
      prefixes.flatMap((prefix) => tierLevels.map((level) => [...prefix, level])),
    [[]],
  );
}
