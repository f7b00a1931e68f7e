// The curves of a calibrated cascade, as numbers: drawn by toolchain/report, or by whoever reads the JSON.

import { type TierPrediction, withoutCalibration } from "../../cascade/calibration.ts";
import { computeExpectedCalibrationError } from "../evaluate/cascade-metrics.ts";
import type { UncalibratedTier, CalibratedCascade, LabeledSamples } from "./calibrate-cascade.ts";
import type { RiskControlOptions } from "./control-risk.ts";
import { applyCalibration } from "./fit-calibration.ts";
import { empiricalRisk, computeRiskPValue } from "./p-values.ts";
import { buildThresholdPath } from "./threshold-path.ts";
import { type ProfiledTier, type Thresholds, simulateCascade } from "./simulate-cascade.ts";

export interface ReliabilityBin {
  readonly samples: number;
  readonly meanConfidence: number;
  readonly accuracy: number;
}

/** Of the tested samples in scope. */
export interface ReliabilityDiagram {
  readonly expectedCalibrationError: number;
  /** Equally wide, those without a sample left out. */
  readonly bins: readonly ReliabilityBin[];
}

export interface CascadePoint {
  readonly thresholds: Thresholds;
  /** Share of the samples that a tier before the last answers. */
  readonly coverage: number;
  /** Of the samples that each tier answers. */
  readonly shares: readonly number[];
  readonly risk: number;
  /** Whether the tested samples, by themselves, show that it is within the bound. */
  readonly holds: boolean;
  readonly accuracy: number;
  readonly meanMs: number;
  readonly meanCost: number;
}

export interface CalibrationCurves {
  readonly tested: number;
  /** By tier; before: as the graph's confidences are by themselves. */
  readonly reliability: readonly {
    readonly tier: string;
    readonly before: ReliabilityDiagram;
    readonly after: ReliabilityDiagram;
  }[];
  /** From nothing answered early on; the risk by coverage, and the accuracy by latency. */
  readonly cascade: readonly CascadePoint[];
  /** Absent for a single tier. */
  readonly chosen?: CascadePoint;
  /** Each tier answering everything by itself. */
  readonly alone: readonly {
    readonly tier: string;
    readonly accuracy: number;
    readonly meanMs: number;
    readonly meanCost: number;
  }[];
}

const BIN_COUNT = 15;

/** @param asked the tiers as they were before @param calibrated with their answers to all samples */
export function computeCalibrationCurves(
  asked: readonly UncalibratedTier[],
  {
    tiers,
    split: parts,
    thresholds,
  }: Pick<CalibratedCascade, "split" | "thresholds"> & { readonly tiers: readonly ProfiledTier[] },
  { labels, groundTruth: truth }: LabeledSamples,
  oosLabel: string | undefined,
  options: RiskControlOptions,
): CalibrationCurves {
  const inScope = parts.test.filter((sample) => truth[sample] !== oosLabel);
  const reliabilityOf = (answers: readonly (TierPrediction | undefined)[]) =>
    computeReliability(
      answers.flatMap((answer, index) =>
        answer === undefined
          ? []
          : [
              {
                confidence: answer.confidence,
                isCorrect: answer.label === truth[inScope[index] ?? -1],
              },
            ],
      ),
    );
  const order =
    tiers.length < 2
      ? []
      : buildThresholdPath(tiers, parts.fit, truth, { ...options, what: "disagreement" });
  const point = (at: Thresholds): CascadePoint => {
    const {
      counts: losses,
      shares,
      accuracy,
      meanMs,
      meanCost,
    } = simulateCascade(tiers, at, parts.test, truth, options.what, options.deadlineMs);
    const holds = computeRiskPValue(options.what, losses, options.epsilon) <= options.delta;
    return {
      thresholds: at,
      coverage: 1 - (shares.at(-1) ?? 0),
      shares,
      risk: empiricalRisk(losses),
      holds,
      accuracy,
      meanMs,
      meanCost,
    };
  };
  return {
    tested: parts.test.length,
    reliability: tiers.map(({ id, answers }, position) => {
      const plain = withoutCalibration(asked[position]?.calibration ?? { temperature: 1 });
      const before = applyCalibration(
        inScope.map((sample) => ({ outputs: asked[position]?.outputs[sample] ?? {} })),
        plain,
        labels,
      );
      return {
        tier: id,
        before: reliabilityOf(before),
        after: reliabilityOf(inScope.map((sample) => answers[sample])),
      };
    }),
    cascade: tiers.length < 2 ? [] : [tiers.slice(1).map(() => 1), ...order].map(point),
    ...(tiers.length < 2 ? {} : { chosen: point(thresholds) }),
    alone: tiers.map(({ id, answers, profile: price }) => ({
      tier: id,
      accuracy:
        parts.test.filter((sample) => answers[sample]?.label === truth[sample]).length /
        Math.max(1, parts.test.length),
      meanMs: price.meanMs,
      meanCost: price.cost,
    })),
  };
}

export function computeReliability(
  judged: readonly { readonly confidence: number; readonly isCorrect: boolean }[],
): ReliabilityDiagram {
  const bins = Array.from({ length: BIN_COUNT }, (_, bin) =>
    judged.filter(
      ({ confidence }) => Math.min(BIN_COUNT - 1, Math.floor(confidence * BIN_COUNT)) === bin,
    ),
  );
  const mean = (values: readonly number[]) =>
    values.reduce((sum, one) => sum + one, 0) / values.length;
  return {
    expectedCalibrationError: computeExpectedCalibrationError(
      judged.map(({ confidence }) => confidence),
      judged.map(({ isCorrect }) => isCorrect),
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
