// Simulates a cascade on samples with predictions of all tiers: the answering tier, the losses, the
// cost and the latency.

import type { TierPrediction } from "../../cascade/calibration.ts";
import { type ExitRule, shouldExit } from "../../cascade/early-exit.ts";
import type { WinLossCounts, RiskKind } from "./p-values.ts";

/** Cost and latency of a request with one input. */
export interface TierProfile {
  /** Cost in a unit that all tiers share. */
  readonly cost: number;
  /** Mean latency, including the network. */
  readonly meanMs: number;
  readonly p99Ms: number;
}

export interface ProfiledTier {
  readonly id: string;
  /** Predictions, one for each sample. */
  readonly answers: readonly TierPrediction[];
  readonly profile: TierProfile;
}

/** Minimum confidence of each tier's exit, in the order of the cascade, without the last tier. */
export type Thresholds = readonly number[];

/** @returns position of the tier that answers */
function findAnsweringTier(
  tiers: readonly ProfiledTier[],
  rules: readonly ExitRule[],
  sample: number,
): number {
  for (let position = 0; position < rules.length; position++) {
    const [answer, rule] = [tiers[position]?.answers[sample], rules[position]];
    if (answer !== undefined && rule !== undefined && shouldExit(answer, rule)) return position;
  }
  return tiers.length - 1;
}

export interface CascadeSimulation {
  readonly counts: WinLossCounts;
  readonly accuracy: number;
  /** Share of the samples that each tier answers. */
  readonly shares: readonly number[];
  readonly meanCost: number;
  readonly meanMs: number;
  /** Share of the samples whose tiers have a total p99 latency above the deadline. */
  readonly deadlineMissShare: number;
}

/** @param samples positions of the simulated samples */
export function simulateCascade(
  tiers: readonly ProfiledTier[],
  thresholds: Thresholds,
  samples: readonly number[],
  groundTruth: readonly string[],
  riskKind: RiskKind,
  deadlineMs: number,
): CascadeSimulation {
  const lastTier = tiers.at(-1);
  const rules = thresholds.map((confidence) => ({ confidence }));
  const answerCounts = tiers.map(() => 0);
  let [losses, wins, correct] = [0, 0, 0];
  for (const sample of samples) {
    const position = findAnsweringTier(tiers, rules, sample);
    answerCounts[position] = (answerCounts[position] ?? 0) + 1;
    const label = tiers[position]?.answers[sample]?.label;
    const lastLabel = lastTier?.answers[sample]?.label;
    if (label === groundTruth[sample]) correct++;
    if (label === lastLabel) continue;
    if (riskKind === "disagreement" || lastLabel === groundTruth[sample]) losses++;
    else if (label === groundTruth[sample]) wins++;
  }
  const count = Math.max(1, samples.length);
  const shares = answerCounts.map((answers) => answers / count);
  const sumUpTo = (position: number, field: keyof TierProfile) =>
    tiers.slice(0, position + 1).reduce((sum, { profile }) => sum + profile[field], 0);
  const mean = (field: keyof TierProfile) =>
    shares.reduce((sum, share, position) => sum + share * sumUpTo(position, field), 0);
  return {
    counts: { samples: samples.length, losses, wins },
    accuracy: correct / count,
    shares,
    meanCost: mean("cost"),
    meanMs: mean("meanMs"),
    deadlineMissShare: shares.reduce(
      (sum, share, position) => sum + (sumUpTo(position, "p99Ms") > deadlineMs ? share : 0),
      0,
    ),
  };
}
