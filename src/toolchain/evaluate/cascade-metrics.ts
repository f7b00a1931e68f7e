// Figures of a cascade on labelled samples, from the answers that each tier gives to all of them.

import type { TierPrediction } from "../../cascade/calibration.ts";
import { type ExitRule, shouldExit } from "../../cascade/early-exit.ts";

export interface TierAnswers {
  readonly id: string;
  readonly place: string;
  readonly exit: ExitRule | null;
  /** One per sample. */
  readonly answers: readonly TierPrediction[];
  /** As the graph's confidences are by themselves, to compare with. */
  readonly uncalibrated?: readonly TierPrediction[];
  /** Mean time of one input, preprocessing included, one at a time. */
  readonly msPerInput: number;
  /** On the way there and back; 0 where left out. */
  readonly networkMs?: number;
  /** Of one input, in a unit that all tiers share; `msPerInput` where left out. */
  readonly cost?: number | undefined;
}

export interface ClassificationMetrics {
  /** Share of the in-scope samples whose label is right; an out-of-scope verdict is wrong. */
  readonly inScopeAccuracy: number;
  /** Share of the out-of-scope samples that are recognised; absent where there is none. */
  readonly oosRecall?: number;
  /** Share of the out-of-scope verdicts that are right; absent where there is none. */
  readonly oosPrecision?: number;
  /** Share of all samples whose label is right. */
  readonly accuracy: number;
  readonly expectedCalibrationError: number;
}

export interface TierMetrics extends ClassificationMetrics {
  readonly id: string;
  readonly msPerInput: number;
  /** Share of all samples that this tier answers in the cascade. */
  readonly share: number;
  /** The same of the in-scope samples. */
  readonly inScopeShare: number;
  readonly expectedCalibrationErrorBefore?: number;
}

export interface CascadeMetrics {
  readonly samples: number;
  readonly tiers: readonly TierMetrics[];
  readonly cascade: ClassificationMetrics & {
    /** Share of all samples answered by edge tiers. */
    readonly edgeShare: number;
    readonly inScopeEdgeShare: number;
    /** In-scope accuracy that the cascade loses against its last tier alone, in points. */
    readonly lossPoints: number;
    /** Mean cost of the last tier alone over the mean cost of the cascade. */
    readonly costRatio: number;
    /** Mean time of an answer, with the way to a region; and the same of the last tier alone. */
    readonly meanMs: number;
    readonly lastTierMs: number;
  };
}

/**
 * @param tiers in the cascade's order
 * @param truth the right label of each sample
 * @param oosLabel the label that marks a sample as out of scope; undefined where nothing is
 */
export function computeCascadeMetrics(
  tiers: readonly TierAnswers[],
  truth: readonly string[],
  oosLabel: string | undefined,
): CascadeMetrics {
  const last = tiers.at(-1);
  if (last === undefined || truth.length === 0)
    throw new RangeError("a cascade needs a tier and a sample");
  const answeredBy = truth.map((_, sample) =>
    tiers.findIndex((tier) => shouldExit(answerAt(tier, sample), tier.exit)),
  );
  const shareOf = (belongs: (tier: number) => boolean, samples: readonly number[]) =>
    samples.filter((sample) => belongs(answeredBy[sample] ?? -1)).length / samples.length;
  const all = truth.map((_, sample) => sample);
  const inScope = all.filter((sample) => truth[sample] !== oosLabel);

  const final = all.map((sample) => answerAt(tiers[answeredBy[sample] ?? -1] ?? last, sample));
  const asked = (position: number) =>
    all.filter((sample) => (answeredBy[sample] ?? -1) >= position).length / all.length;
  const meanOf = (valueOf: (tier: TierAnswers) => number) =>
    tiers.reduce((sum, tier, position) => sum + asked(position) * valueOf(tier), 0);
  const costOf = ({ cost, msPerInput }: TierAnswers) => cost ?? msPerInput;
  const timeOf = ({ msPerInput, networkMs: wayMs = 0 }: TierAnswers) => msPerInput + wayMs;
  const combined = computeClassificationMetrics(final, truth, oosLabel);
  const isEdge = (position: number) => tiers[position]?.place === "edge";

  return {
    samples: truth.length,
    tiers: tiers.map((tier, position) => ({
      id: tier.id,
      ...computeClassificationMetrics(tier.answers, truth, oosLabel),
      msPerInput: tier.msPerInput,
      share: shareOf((by) => by === position, all),
      inScopeShare: shareOf((by) => by === position, inScope),
      ...(tier.uncalibrated === undefined
        ? {}
        : {
            expectedCalibrationErrorBefore: computeClassificationMetrics(
              tier.uncalibrated,
              truth,
              oosLabel,
            ).expectedCalibrationError,
          }),
    })),
    cascade: {
      ...combined,
      edgeShare: shareOf(isEdge, all),
      inScopeEdgeShare: shareOf(isEdge, inScope),
      lossPoints:
        100 *
        (computeClassificationMetrics(last.answers, truth, oosLabel).inScopeAccuracy -
          combined.inScopeAccuracy),
      costRatio: costOf(last) / meanOf(costOf),
      meanMs: meanOf(timeOf),
      lastTierMs: timeOf(last),
    },
  };
}

function answerAt(tier: TierAnswers, sample: number): TierPrediction {
  const answer = tier.answers[sample];
  if (answer === undefined)
    throw new RangeError(`tier ${tier.id} has no answer to sample ${sample}`);
  return answer;
}

export function computeClassificationMetrics(
  answers: readonly TierPrediction[],
  truth: readonly string[],
  oosLabel: string | undefined,
): ClassificationMetrics {
  const right = answers.map((answer, sample) => answer.label === truth[sample]);
  const shareRight = (keep: (sample: number) => boolean): number | undefined => {
    const kept = right.filter((_, sample) => keep(sample));
    return kept.length === 0 ? undefined : kept.filter(Boolean).length / kept.length;
  };
  const inScope = (sample: number) => truth[sample] !== oosLabel;
  const oosRecall = shareRight((sample) => !inScope(sample));
  const oosPrecision =
    oosLabel === undefined
      ? undefined
      : shareRight((sample) => answers[sample]?.label === oosLabel);
  return {
    inScopeAccuracy: shareRight(inScope) ?? 0,
    ...(oosRecall === undefined ? {} : { oosRecall }),
    ...(oosPrecision === undefined ? {} : { oosPrecision }),
    accuracy: shareRight(() => true) ?? 0,
    expectedCalibrationError: computeExpectedCalibrationError(
      answers.map((answer) => answer.confidence).filter((_, sample) => inScope(sample)),
      right.filter((_, sample) => inScope(sample)),
    ),
  };
}

/** Naeini et al. 2015: the mean distance of confidence from accuracy over equally wide bins, weighted by their samples. */
export function computeExpectedCalibrationError(
  confidences: readonly number[],
  right: readonly boolean[],
  bins = 15,
): number {
  const sums = Array.from({ length: bins }, () => ({ confidence: 0, right: 0 }));
  confidences.forEach((confidence, sample) => {
    const bin = sums[Math.min(bins - 1, Math.floor(confidence * bins))];
    if (bin === undefined) return;
    bin.confidence += confidence;
    bin.right += right[sample] === true ? 1 : 0;
  });
  return (
    sums.reduce((sum, bin) => sum + Math.abs(bin.confidence - bin.right), 0) /
    Math.max(1, confidences.length)
  );
}
