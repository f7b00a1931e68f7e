// The curves of a calibrated cascade, as numbers: drawn by build/report, or by whoever reads the JSON.

import { type Answer, uncalibrated } from "../../cascade/calibration.ts";
import { expectedCalibrationError } from "../judge/cascade-figures.ts";
import type { AskedTier, CalibratedCascade, Labelled } from "./calibrate-cascade.ts";
import type { ControlOptions } from "./control-risk.ts";
import { answersOf } from "./fit-calibration.ts";
import { empiricalRisk, riskPValue } from "./p-values.ts";
import { orderThresholds } from "./threshold-path.ts";
import { type PricedTier, type Thresholds, walk } from "./walk.ts";

export interface ReliabilityBin {
  readonly samples: number;
  readonly meanConfidence: number;
  readonly accuracy: number;
}

/** Of the tested samples in scope. */
export interface Reliability {
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
    readonly before: Reliability;
    readonly after: Reliability;
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

const BINS = 15;

/** @param asked the tiers as they were before @param calibrated with their answers to all samples */
export function calibrationCurves(
  asked: readonly AskedTier[],
  {
    tiers,
    parts,
    thresholds,
  }: Pick<CalibratedCascade, "parts" | "thresholds"> & { readonly tiers: readonly PricedTier[] },
  { labels, truth }: Labelled,
  oosLabel: string | undefined,
  options: ControlOptions,
): CalibrationCurves {
  const inScope = parts.test.filter((sample) => truth[sample] !== oosLabel);
  const reliabilityOf = (answers: readonly (Answer | undefined)[]) =>
    reliability(
      answers.flatMap((answer, index) =>
        answer === undefined
          ? []
          : [
              {
                confidence: answer.confidence,
                isRight: answer.label === truth[inScope[index] ?? -1],
              },
            ],
      ),
    );
  const order =
    tiers.length < 2
      ? []
      : orderThresholds(tiers, parts.fit, truth, { ...options, what: "disagreement" });
  const point = (at: Thresholds): CascadePoint => {
    const { losses, shares, accuracy, meanMs, meanCost } = walk(
      tiers,
      at,
      parts.test,
      truth,
      options.what,
      options.deadlineMs,
    );
    const holds = riskPValue(options.what, losses, options.epsilon) <= options.delta;
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
      const plain = uncalibrated(asked[position]?.calibration ?? { temperature: 1 });
      const before = answersOf(
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
    alone: tiers.map(({ id, answers, price }) => ({
      tier: id,
      accuracy:
        parts.test.filter((sample) => answers[sample]?.label === truth[sample]).length /
        Math.max(1, parts.test.length),
      meanMs: price.meanMs,
      meanCost: price.cost,
    })),
  };
}

export function reliability(
  judged: readonly { readonly confidence: number; readonly isRight: boolean }[],
): Reliability {
  const bins = Array.from({ length: BINS }, (_, bin) =>
    judged.filter(({ confidence }) => Math.min(BINS - 1, Math.floor(confidence * BINS)) === bin),
  );
  const mean = (values: readonly number[]) =>
    values.reduce((sum, one) => sum + one, 0) / values.length;
  return {
    expectedCalibrationError: expectedCalibrationError(
      judged.map(({ confidence }) => confidence),
      judged.map(({ isRight }) => isRight),
      BINS,
    ),
    bins: bins
      .filter((bin) => bin.length > 0)
      .map((bin) => ({
        samples: bin.length,
        meanConfidence: mean(bin.map(({ confidence }) => confidence)),
        accuracy: mean(bin.map(({ isRight }) => Number(isRight))),
      })),
  };
}
