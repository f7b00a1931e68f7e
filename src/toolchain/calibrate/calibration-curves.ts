// Computes the curves of a calibrated cascade as numbers, for the plots of toolchain/report and for
// JSON output.

import { type TierPrediction, withoutCalibration } from "../../cascade/calibration.ts";
import { computeExpectedCalibrationError } from "../evaluate/cascade-metrics.ts";
import type {
  UncalibratedTier,
  CalibratedCascade,
  LabeledSamples,
  SampleSplit,
} from "./calibrate-cascade.ts";
import type { RiskControlOptions } from "./control-risk.ts";
import { applyCalibration } from "./fit-calibration.ts";
import { empiricalRisk, computeRiskPValue } from "./p-values.ts";
import { type ProfiledTier, type Thresholds, simulateCascade } from "./simulate-cascade.ts";
import { buildThresholdPath } from "./threshold-path.ts";

export interface ReliabilityBin {
  readonly samples: number;
  readonly meanConfidence: number;
  readonly accuracy: number;
}

/** Reliability of a tier on the tested in-scope samples. */
export interface ReliabilityDiagram {
  readonly expectedCalibrationError: number;
  /** Bins of equal width, without empty ones. */
  readonly bins: readonly ReliabilityBin[];
}

export interface CascadePoint {
  readonly thresholds: Thresholds;
  /** Share of the samples that exit before the last tier. */
  readonly coverage: number;
  /** Share of the samples that each tier answers. */
  readonly shares: readonly number[];
  readonly risk: number;
  /** Whether a test of these thresholds alone shows that the risk is within the bound. */
  readonly holds: boolean;
  readonly accuracy: number;
  readonly meanMs: number;
  readonly meanCost: number;
}

export interface CalibrationCurves {
  readonly tested: number;
  /** Diagrams by tier; `before` uses the graph's own confidences. */
  readonly reliability: readonly {
    readonly tier: string;
    readonly before: ReliabilityDiagram;
    readonly after: ReliabilityDiagram;
  }[];
  /** Points from no early exits onward, with risk, coverage, accuracy and latency. */
  readonly cascade: readonly CascadePoint[];
  /** Absent for a single tier. */
  readonly chosen?: CascadePoint;
  /** Figures of each tier without a cascade. */
  readonly alone: readonly {
    readonly tier: string;
    readonly accuracy: number;
    readonly meanMs: number;
    readonly meanCost: number;
  }[];
}

const BIN_COUNT = 15;

/** A calibrated cascade with the samples that its curves are computed on. */
interface TestedCascade {
  readonly tiers: readonly ProfiledTier[];
  readonly split: SampleSplit;
  readonly groundTruth: readonly string[];
  readonly options: RiskControlOptions;
}

/**
 * @param uncalibrated the tiers before the calibration
 * @param cascade tiers with predictions for all samples, and the chosen thresholds
 */
export function computeCalibrationCurves(
  uncalibrated: readonly UncalibratedTier[],
  cascade: Pick<CalibratedCascade, "split" | "thresholds"> & {
    readonly tiers: readonly ProfiledTier[];
  },
  labeled: LabeledSamples,
  oosLabel: string | undefined,
  options: RiskControlOptions,
): CalibrationCurves {
  const { tiers, split, thresholds } = cascade;
  const { groundTruth } = labeled;
  const tested: TestedCascade = { tiers, split, groundTruth, options };
  const reliability = computeTierReliability(uncalibrated, tested, labeled.labels, oosLabel);
  const alone = tiers.map(({ id, answers, profile }) => ({
    tier: id,
    accuracy:
      split.test.filter((sample) => answers[sample]?.label === groundTruth[sample]).length /
      Math.max(1, split.test.length),
    meanMs: profile.meanMs,
    meanCost: profile.cost,
  }));
  if (tiers.length < 2) return { tested: split.test.length, reliability, cascade: [], alone };
  const path = buildThresholdPath(tiers, split.fit, groundTruth, {
    ...options,
    what: "disagreement",
  });
  return {
    tested: split.test.length,
    reliability,
    cascade: [tiers.slice(1).map(() => 1), ...path].map((point) => computePoint(tested, point)),
    chosen: computePoint(tested, thresholds),
    alone,
  };
}

/** Computes the diagrams of each tier on the tested in-scope samples. */
function computeTierReliability(
  uncalibrated: readonly UncalibratedTier[],
  { tiers, split, groundTruth }: TestedCascade,
  labels: readonly string[],
  oosLabel: string | undefined,
): CalibrationCurves["reliability"] {
  const inScope = split.test.filter((sample) => groundTruth[sample] !== oosLabel);
  const toDiagram = (predictions: readonly (TierPrediction | undefined)[]) =>
    computeReliability(
      predictions.flatMap((prediction, index) => {
        if (prediction === undefined) return [];
        const isCorrect = prediction.label === groundTruth[inScope[index] ?? -1];
        return [{ confidence: prediction.confidence, isCorrect }];
      }),
    );
  return tiers.map(({ id, answers }, position) => {
    const tier = uncalibrated[position];
    const before = applyCalibration(
      inScope.map((sample) => ({ outputs: tier?.outputs[sample] ?? {} })),
      withoutCalibration(tier?.calibration ?? { temperature: 1 }),
      labels,
    );
    return {
      tier: id,
      before: toDiagram(before),
      after: toDiagram(inScope.map((sample) => answers[sample])),
    };
  });
}

function computePoint(
  { tiers, split, groundTruth, options }: TestedCascade,
  thresholds: Thresholds,
): CascadePoint {
  const { what, epsilon, delta, deadlineMs } = options;
  const { counts, shares, accuracy, meanMs, meanCost } = simulateCascade(
    tiers,
    thresholds,
    split.test,
    groundTruth,
    what,
    deadlineMs,
  );
  return {
    thresholds,
    coverage: 1 - (shares.at(-1) ?? 0),
    shares,
    risk: empiricalRisk(counts),
    holds: computeRiskPValue(what, counts, epsilon) <= delta,
    accuracy,
    meanMs,
    meanCost,
  };
}

export function computeReliability(
  predictions: readonly { readonly confidence: number; readonly isCorrect: boolean }[],
): ReliabilityDiagram {
  const bins = Array.from({ length: BIN_COUNT }, (_, bin) =>
    predictions.filter(
      ({ confidence }) => Math.min(BIN_COUNT - 1, Math.floor(confidence * BIN_COUNT)) === bin,
    ),
  );
  const mean = (values: readonly number[]) =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  return {
    expectedCalibrationError: computeExpectedCalibrationError(
      predictions.map(({ confidence }) => confidence),
      predictions.map(({ isCorrect }) => isCorrect),
      BIN_COUNT,
    ),
    bins: bins
      .filter((bin) => bin.length > 0)
      .map((bin) => ({
        samples: bin.length,
        meanConfidence: mean(bin.map(({ confidence }) => confidence)),
        accuracy: mean(bin.map(({ isCorrect }) => Number(isCorrect))),
      })),
  };
}
