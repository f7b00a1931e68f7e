// Validates the risk bound empirically: calibrates on many random splits of the samples and
// measures the risk on the rest.

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
  /** Number of splits in which no exit met the bound, so that the last tier answers everything. */
  readonly unreached: number;
  /** Share of the splits whose risk is at most epsilon; expected to be at least 1 - delta. */
  readonly heldShare: number;
  readonly meanRisk: number;
  readonly p95Risk: number;
  readonly largestRisk: number;
  readonly meanEarlyShare: number;
  readonly meanCostRatio: number;
}

export interface RiskValidation {
  /**
   * Calibrates on half of the samples and measures the risk on the other half. The measurement
   * scatters around the bounded risk. If exits use the whole bound, more than delta of the splits
   * may exceed epsilon without a violation.
   */
  readonly halves: RiskValidationSummary;
  /**
   * Calibrates on as many samples drawn with replacement and measures the risk on all samples, the
   * population of the draws. This is exactly the bounded risk, so the guarantee of 1 - delta
   * applies to its `heldShare`.
   */
  readonly draws: RiskValidationSummary;
}

/** @param tiers tiers with outputs for every sample; they are computed once and drawn many times */
export function validateRiskBound(
  tiers: readonly UncalibratedTier[],
  labeled: LabeledSamples,
  options: RiskValidationOptions,
): RiskValidation {
  const { splits, seed = 1, onProgress = () => {} } = options;
  const random = seededRandom(seed);
  const count = labeled.groundTruth.length;
  const all = Array.from({ length: count }, (_, sample) => sample);
  const [halves, draws]: [SplitResult[], SplitResult[]] = [[], []];
  for (let split = 0; split < splits; split++) {
    const order = shuffle([...all], random);
    const half = Math.floor(count / 2);
    halves.push(
      evaluateSplit(tiers, labeled, options, splitSamples(order.slice(0, half)), order.slice(half)),
    );
    draws.push(
      evaluateSplit(
        tiers,
        labeled,
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
  labeled: LabeledSamples,
  options: RiskValidationOptions,
  sampleSplit: SampleSplit,
  validation: readonly number[],
): SplitResult {
  const cascade = calibrateCascade(tiers, labeled, {
    ...options,
    split: sampleSplit,
    allowLastTierOnly: true,
  });
  const simulation = simulateCascade(
    cascade.tiers,
    cascade.thresholds,
    validation,
    labeled.groundTruth,
    options.what,
    options.deadlineMs,
  );
  return {
    ...simulation,
    isReached: cascade.riskControl.chosen !== undefined,
    costRatio: (cascade.tiers.at(-1)?.profile.cost ?? 0) / simulation.meanCost,
  };
}

function summarizeSplits(splits: readonly SplitResult[], epsilon: number): RiskValidationSummary {
  const risks = splits.map(({ counts }) => empiricalRisk(counts));
  const mean = (valueOf: (split: SplitResult) => number) =>
    splits.reduce((sum, split) => sum + valueOf(split), 0) / splits.length;
  return {
    splits: splits.length,
    unreached: splits.filter(({ isReached }) => !isReached).length,
    heldShare: risks.filter((risk) => risk <= epsilon).length / splits.length,
    meanRisk: mean(({ counts }) => empiricalRisk(counts)),
    p95Risk: quantile(risks, 0.95),
    largestRisk: Math.max(...risks),
    meanEarlyShare: mean(({ shares }) => 1 - (shares.at(-1) ?? 0)),
    meanCostRatio: mean(({ costRatio }) => costRatio),
  };
}
