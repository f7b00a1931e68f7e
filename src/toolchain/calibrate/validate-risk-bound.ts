// Whether the bound holds, looked up: calibrated on many random draws of the samples, and the risk taken where it was not.

import { quantile } from "../evaluate/latency.ts";
import { seededRandom, shuffle } from "../seeded-random.ts";
import {
  type UncalibratedTier,
  type CalibrateCascadeOptions,
  calibrateCascade,
  type LabeledSamples,
  type SampleSplit,
  splitSamples,
} from "./calibrate-cascade.ts";
import { empiricalRisk } from "./p-values.ts";
import { type CascadeSimulation, simulateCascade } from "./simulate-cascade.ts";

export interface RiskValidationOptions extends Omit<
  CalibrateCascadeOptions,
  "split" | "allowLastTierOnly"
> {
  readonly splits: number;
  readonly seed?: number;
  readonly onProgress?: (done: number) => void;
}

export interface RiskValidationSummary {
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

export interface RiskValidation {
  /**
   * Half of the samples calibrate, the risk is that of the other half. It strays around the risk that is bounded: where
   * the exits use all that is allowed, more than delta of the splits may lie above epsilon with no promise broken.
   */
  readonly halves: RiskValidationSummary;
  /**
   * As many as there are, drawn with replacement, calibrate; the risk is that of all samples, which they were drawn from. It is
   * the very risk that is bounded, and so its share is what 1 - delta is promised of.
   */
  readonly draws: RiskValidationSummary;
}

/** Tiers must have answered every sample: answers are computed once, and drawn many times. */
export function validateRiskBound(
  tiers: readonly UncalibratedTier[],
  labelled: LabeledSamples,
  options: RiskValidationOptions,
): RiskValidation {
  const { splits, seed = 1, onProgress = () => {} } = options;
  const random = seededRandom(seed);
  const count = labelled.groundTruth.length;
  const all = Array.from({ length: count }, (_, sample) => sample);
  const [halves, draws]: [SplitResult[], SplitResult[]] = [[], []];
  for (let split = 0; split < splits; split++) {
    const order = shuffle([...all], random);
    const half = Math.floor(count / 2);
    halves.push(
      evaluateSplit(
        tiers,
        labelled,
        options,
        splitSamples(order.slice(0, half)),
        order.slice(half),
      ),
    );
    draws.push(
      evaluateSplit(
        tiers,
        labelled,
        options,
        splitSamples(all.map(() => Math.floor(random() * count))),
        all,
      ),
    );
    onProgress(split + 1);
  }
  return {
    halves: summarizeSplits(halves, options.epsilon),
    draws: summarizeSplits(draws, options.epsilon),
  };
}

interface SplitResult extends CascadeSimulation {
  readonly isReached: boolean;
  readonly costRatio: number;
}

function evaluateSplit(
  tiers: readonly UncalibratedTier[],
  labelled: LabeledSamples,
  options: RiskValidationOptions,
  parts: SampleSplit,
  validation: readonly number[],
): SplitResult {
  const {
    tiers: calibrated,
    riskControl: control,
    thresholds,
  } = calibrateCascade(tiers, labelled, { ...options, split: parts, allowLastTierOnly: true });
  const walked = simulateCascade(
    calibrated,
    thresholds,
    validation,
    labelled.groundTruth,
    options.what,
    options.deadlineMs,
  );
  return {
    ...walked,
    isReached: control.chosen !== undefined,
    costRatio: (calibrated.at(-1)?.profile.cost ?? 0) / walked.meanCost,
  };
}

function summarizeSplits(splits: readonly SplitResult[], epsilon: number): RiskValidationSummary {
  const risks = splits.map(({ counts: losses }) => empiricalRisk(losses));
  const mean = (valueOf: (split: SplitResult) => number) =>
    splits.reduce((sum, split) => sum + valueOf(split), 0) / splits.length;
  return {
    splits: splits.length,
    unreached: splits.filter(({ isReached }) => !isReached).length,
    heldShare: risks.filter((risk) => risk <= epsilon).length / splits.length,
    meanRisk: mean(({ counts: losses }) => empiricalRisk(losses)),
    p95Risk: quantile(risks, 0.95),
    largestRisk: Math.max(...risks),
    meanEarlyShare: mean(({ shares }) => 1 - (shares.at(-1) ?? 0)),
    meanCostRatio: mean(({ costRatio }) => costRatio),
  };
}
