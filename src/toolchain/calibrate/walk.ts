// What a cascade does with samples that all its tiers have answered: who answers, what is lost, what it costs.

import type { Answer } from "../../cascade/calibration.ts";
import { type ExitRule, exits } from "../../cascade/exit.ts";
import type { Losses, RiskKind } from "./p-values.ts";

/** Of one input, asked alone. */
export interface Price {
  /** In any unit that all tiers share. */
  readonly cost: number;
  /** With the way there and back. */
  readonly meanMs: number;
  readonly p99Ms: number;
}

export interface PricedTier {
  readonly id: string;
  /** One per sample. */
  readonly answers: readonly Answer[];
  readonly price: Price;
}

/** The confidence from which each tier's answer is accepted, in their order, without the last tier. */
export type Thresholds = readonly number[];

/** @returns the position of the tier whose answer is taken */
function answeringTier(
  tiers: readonly PricedTier[],
  rules: readonly ExitRule[],
  sample: number,
): number {
  for (let position = 0; position < rules.length; position++) {
    const [answer, rule] = [tiers[position]?.answers[sample], rules[position]];
    if (answer !== undefined && rule !== undefined && exits(answer, rule)) return position;
  }
  return tiers.length - 1;
}

export interface Walk {
  readonly losses: Losses;
  readonly accuracy: number;
  /** Of the samples that each tier answers. */
  readonly shares: readonly number[];
  readonly meanCost: number;
  readonly meanMs: number;
  /** Share of the samples whose tiers may take longer than the deadline: their p99 together. */
  readonly lateShare: number;
}

/** @param part positions of the samples to walk with */
export function walk(
  tiers: readonly PricedTier[],
  thresholds: Thresholds,
  part: readonly number[],
  truth: readonly string[],
  what: RiskKind,
  deadlineMs: number,
): Walk {
  const last = tiers.at(-1);
  const rules = thresholds.map((confidence) => ({ confidence }));
  const counts = tiers.map(() => 0);
  let [lost, won, right] = [0, 0, 0];
  for (const sample of part) {
    const by = answeringTier(tiers, rules, sample);
    counts[by] = (counts[by] ?? 0) + 1;
    const [label, top] = [tiers[by]?.answers[sample]?.label, last?.answers[sample]?.label];
    if (label === truth[sample]) right++;
    if (label === top) continue;
    if (what === "disagreement" || top === truth[sample]) lost++;
    else if (label === truth[sample]) won++;
  }
  const samples = Math.max(1, part.length);
  const shares = counts.map((count) => count / samples);
  const upTo = (position: number, field: keyof Price) =>
    tiers.slice(0, position + 1).reduce((sum, { price }) => sum + price[field], 0);
  const mean = (field: keyof Price) =>
    shares.reduce((sum, share, position) => sum + share * upTo(position, field), 0);
  return {
    losses: { samples: part.length, lost, won },
    accuracy: right / samples,
    shares,
    meanCost: mean("cost"),
    meanMs: mean("meanMs"),
    lateShare: shares.reduce(
      (sum, share, position) => sum + (upTo(position, "p99Ms") > deadlineMs ? share : 0),
      0,
    ),
  };
}
