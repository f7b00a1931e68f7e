// In which order vectors of thresholds are tested: the safe ones first, and of equally safe ones only the cheapest. Laufer-
// Goldshlager et al. 2023, "Efficiently Controlling Multiple Risks with Pareto Testing".

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
/** So large a share of the samples may have tiers that together take longer than the deadline: it is held at the p99. */
const MAX_DEADLINE_MISS_SHARE = 0.01;
/** What an early exit counts for by itself, of epsilon: with few samples much looks free of risk, and the path should not begin at its end. */
const EARLY_EXIT_PENALTY = 0.1;
/** Standard errors that are added to a risk: exits that win and lose much are no safe beginning, though they win more. */
const RISK_MARGIN_STANDARD_ERRORS = 2;

/**
 * The front of risk and cost over all combinations of levels at which something may exit early.
 * @param part positions of the samples to learn it from: none of those that are tested on
 */
export function buildThresholdPath(
  tiers: readonly ProfiledTier[],
  part: readonly number[],
  truth: readonly string[],
  { what, epsilon, deadlineMs }: ThresholdPathOptions,
): Thresholds[] {
  const early = tiers.slice(0, -1);
  const levels = Math.max(
    2,
    Math.min(MAX_LEVELS, Math.floor(MAX_VECTORS ** (1 / Math.max(1, early.length)))),
  );
  const all = cartesianProduct(early.map((tier) => confidenceLevels(tier, part, levels))).filter(
    (thresholds) => thresholds.some((confidence) => confidence < 1),
  );
  const known = all.map((thresholds) => {
    const {
      counts: losses,
      shares,
      meanCost,
      deadlineMissShare: lateShare,
    } = simulateCascade(tiers, thresholds, part, truth, what, deadlineMs);
    const exited = 1 - (shares.at(-1) ?? 0);
    const error = Math.sqrt(losses.losses + losses.wins) / Math.max(1, losses.samples);
    return {
      thresholds,
      meanCost,
      lateShare,
      risk:
        empiricalRisk(losses) +
        RISK_MARGIN_STANDARD_ERRORS * error +
        EARLY_EXIT_PENALTY * epsilon * exited,
    };
  });
  const inTime = known
    .filter(({ lateShare }) => lateShare <= MAX_DEADLINE_MISS_SHARE)
    .toSorted((a, b) => a.risk - b.risk || a.meanCost - b.meanCost);
  const front: Thresholds[] = [];
  let cheapest = Number.POSITIVE_INFINITY;
  for (const { thresholds, meanCost } of inTime) {
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

/** Quantiles of a tier's confidences, of answers that may exit; 1, at which none does; and 0, at which all do. */
function confidenceLevels(
  { answers }: ProfiledTier,
  part: readonly number[],
  count: number,
): number[] {
  const confidences = part
    .flatMap((sample) =>
      answers[sample]?.outOfScope === false ? [answers[sample].confidence] : [],
    )
    .toSorted((a, b) => b - a);
  const quantiles = Array.from(
    { length: count - 2 },
    (_, index) => confidences[Math.ceil(((index + 1) * confidences.length) / (count - 1)) - 1] ?? 1,
  );
  return [...new Set([1, ...quantiles.map((one) => Math.floor(one * 1e6) / 1e6), 0])];
}

function cartesianProduct(levels: readonly (readonly number[])[]): number[][] {
  return levels.reduce<number[][]>(
    (all, own) => all.flatMap((before) => own.map((level) => [...before, level])),
    [[]],
  );
}
