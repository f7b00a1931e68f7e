// What a cascade does with samples that all its tiers have answered: who answers, what is lost, what it costs.

import type { TierPrediction } from "../../cascade/calibration.ts";
import { type ExitRule, shouldExit } from "../../cascade/early-exit.ts";
import type { WinLossCounts, RiskKind } from "./p-values.ts";

/** Of one input, asked alone. */
export interface TierProfile {
  /** In any unit that all tiers share. */
  readonly cost: number;
  /** With the way there and back. */
  readonly meanMs: number;
  readonly p99Ms: number;
}

export interface ProfiledTier {
  readonly id: string;
  /** One per sample. */
  readonly answers: readonly TierPrediction[];
  readonly profile: TierProfile;
}

/** The confidence from which each tier's answer is accepted, in their order, without the last tier. */
export type Thresholds = readonly number[];

/** @returns the position of the tier whose answer is taken */
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
  /** Of the samples that each tier answers. */
  readonly shares: readonly number[];
  readonly meanCost: number;
  readonly meanMs: number;
  /** Share of the samples whose tiers may take longer than the deadline: their p99 together. */
  readonly deadlineMissShare: number;
}

/** @param part positions of the samples to walk with */
export function simulateCascade(
  tiers: readonly ProfiledTier[],
  thresholds: Thresholds,
  part: readonly number[],
  truth: readonly string[],
  what: RiskKind,
  deadlineMs: number,
): CascadeSimulation {
  const last = tiers.at(-1);
  const rules = thresholds.map((confidence) => ({ confidence }));
  const counts = tiers.map(() => 0);
  let [lost, won, right] = [0, 0, 0];
  for (const sample of part) {
    const by = findAnsweringTier(tiers, rules, sample);
    counts[by] = (counts[by] ?? 0) + 1;
    const [label, top] = [tiers[by]?.answers[sample]?.label, last?.answers[sample]?.label];
    if (label === truth[sample]) right++;
    if (label === top) continue;
    if (what === "disagreement" || top === truth[sample]) lost++;
    else if (label === truth[sample]) won++;
  }
  const samples = Math.max(1, part.length);
  const shares = counts.map((count) => count / samples);
  const upTo = (position: number, field: keyof TierProfile) =>
    tiers.slice(0, position + 1).reduce((sum, { profile: price }) => sum + price[field], 0);
  const mean = (field: keyof TierProfile) =>
    shares.reduce((sum, share, position) => sum + share * upTo(position, field), 0);
  return {
    counts: { samples: part.length, losses: lost, wins: won },
    accuracy: right / samples,
    shares,
    meanCost: mean("cost"),
    meanMs: mean("meanMs"),
    deadlineMissShare: shares.reduce(
      (sum, share, position) => sum + (upTo(position, "p99Ms") > deadlineMs ? share : 0),
      0,
    ),
  };
}
