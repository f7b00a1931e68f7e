// Whether the bound holds, looked up: calibrated on many random draws of the samples, and the risk taken where it was not.

import { quantile } from "../judge/latency.ts";
import { seededRandom, shuffle } from "../seeded-random.ts";
import {
  type AskedTier,
  type CalibrateOptions,
  calibrateCascade,
  type Labelled,
  type Parts,
  partsOf,
} from "./calibrate-cascade.ts";
import { empiricalRisk } from "./p-values.ts";
import { type Walk, walk } from "./walk.ts";

export interface ResampleOptions extends Omit<CalibrateOptions, "parts" | "orTopOnly"> {
  readonly splits: number;
  readonly seed?: number;
  readonly onProgress?: (done: number) => void;
}

export interface Resampled {
  readonly splits: number;
  /** In which no exit held the bound, so that the last tier answers all. */
  readonly unreached: number;
  /** Share of the splits in which the risk is at most epsilon: to be 1 - delta or more. */
  readonly heldShare: number;
  readonly meanRisk: number;
  readonly p95Risk: number;
  readonly largestRisk: number;
  readonly meanEarlyShare: number;
  readonly meanCostRatio: number;
}

export interface Resamples {
  /**
   * Half of the samples calibrate, the risk is that of the other half. It strays around the risk that is bounded: where
   * the exits use all that is allowed, more than delta of the splits may lie above epsilon with no promise broken.
   */
  readonly halves: Resampled;
  /**
   * As many as there are, drawn with replacement, calibrate; the risk is that of all samples, which they were drawn from. It is
   * the very risk that is bounded, and so its share is what 1 - delta is promised of.
   */
  readonly draws: Resampled;
}

/** Tiers must have answered every sample: answers are computed once, and drawn many times. */
export function resample(
  tiers: readonly AskedTier[],
  labelled: Labelled,
  options: ResampleOptions,
): Resamples {
  const { splits, seed = 1, onProgress = () => {} } = options;
  const random = seededRandom(seed);
  const count = labelled.truth.length;
  const all = Array.from({ length: count }, (_, sample) => sample);
  const [halves, draws]: [Split[], Split[]] = [[], []];
  for (let split = 0; split < splits; split++) {
    const order = shuffle([...all], random);
    const half = Math.floor(count / 2);
    halves.push(
      oneSplit(tiers, labelled, options, partsOf(order.slice(0, half)), order.slice(half)),
    );
    draws.push(
      oneSplit(tiers, labelled, options, partsOf(all.map(() => Math.floor(random() * count))), all),
    );
    onProgress(split + 1);
  }
  return { halves: summaryOf(halves, options.epsilon), draws: summaryOf(draws, options.epsilon) };
}

interface Split extends Walk {
  readonly isReached: boolean;
  readonly costRatio: number;
}

function oneSplit(
  tiers: readonly AskedTier[],
  labelled: Labelled,
  options: ResampleOptions,
  parts: Parts,
  validation: readonly number[],
): Split {
  const {
    tiers: calibrated,
    control,
    thresholds,
  } = calibrateCascade(tiers, labelled, { ...options, parts, orTopOnly: true });
  const walked = walk(
    calibrated,
    thresholds,
    validation,
    labelled.truth,
    options.what,
    options.deadlineMs,
  );
  return {
    ...walked,
    isReached: control.chosen !== undefined,
    costRatio: (calibrated.at(-1)?.price.cost ?? 0) / walked.meanCost,
  };
}

function summaryOf(splits: readonly Split[], epsilon: number): Resampled {
  const risks = splits.map(({ losses }) => empiricalRisk(losses));
  const mean = (valueOf: (split: Split) => number) =>
    splits.reduce((sum, split) => sum + valueOf(split), 0) / splits.length;
  return {
    splits: splits.length,
    unreached: splits.filter(({ isReached }) => !isReached).length,
    heldShare: risks.filter((risk) => risk <= epsilon).length / splits.length,
    meanRisk: mean(({ losses }) => empiricalRisk(losses)),
    p95Risk: quantile(risks, 0.95),
    largestRisk: Math.max(...risks),
    meanEarlyShare: mean(({ shares }) => 1 - (shares.at(-1) ?? 0)),
    meanCostRatio: mean(({ costRatio }) => costRatio),
  };
}
