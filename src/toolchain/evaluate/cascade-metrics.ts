// Cascade metrics: computes a cascade's accuracy, tier shares and costs on labeled samples, from every tier's answers to
// all of them.

import type { TierPrediction } from "../../cascade/calibration.ts";
import { type ExitRule, shouldExit } from "../../cascade/early-exit.ts";

export interface TierAnswers {
  readonly id: string;
  readonly place: string;
  readonly exit: ExitRule | null;
  /** One answer per sample. */
  readonly answers: readonly TierPrediction[];
  /** Answers with the graph's uncalibrated confidences, for comparison. */
  readonly uncalibrated?: readonly TierPrediction[];
  /** Mean time of one input including preprocessing, without batching. */
  readonly msPerInput: number;
  /** Network round trip to the tier; 0 by default. */
  readonly networkMs?: number;
  /** Cost of one input in a unit that all tiers share; `msPerInput` by default. */
  readonly cost?: number | undefined;
}

export interface ClassificationMetrics {
  /** Share of the in-scope samples whose label is right; an out-of-scope verdict is wrong. */
  readonly inScopeAccuracy: number;
  /** Share of the out-of-scope samples that are recognized; absent without such samples. */
  readonly oosRecall?: number;
  /** Share of the out-of-scope verdicts that are right; absent without such verdicts. */
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
  /** Share of the in-scope samples that this tier answers in the cascade. */
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
    /** Loss of in-scope accuracy against the last tier alone, in points. */
    readonly lossPoints: number;
    /** Mean cost of the last tier alone, divided by the mean cost of the cascade. */
    readonly costRatio: number;
    /** Mean time of an answer, including the network. */
    readonly meanMs: number;
    /** Mean time of an answer from the last tier alone, including the network. */
    readonly lastTierMs: number;
  };
}

/**
 * @param tiers in the cascade's order
 * @param truth the right label of each sample
 * @param oosLabel the label that marks a sample as out of scope; undefined if every sample is in scope
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
  const computeShare = (isIncluded: (tier: number) => boolean, samples: readonly number[]) =>
    samples.filter((sample) => isIncluded(answeredBy[sample] ?? -1)).length / samples.length;
  const all = truth.map((_, sample) => sample);
  const inScope = all.filter((sample) => truth[sample] !== oosLabel);

  const cascadeAnswers = all.map((sample) =>
    answerAt(tiers[answeredBy[sample] ?? -1] ?? last, sample),
  );
  const computeCallShare = (position: number) =>
    computeShare((answeringTier) => answeringTier >= position, all);
  const computeMean = (valueOf: (tier: TierAnswers) => number) =>
    tiers.reduce((sum, tier, position) => sum + computeCallShare(position) * valueOf(tier), 0);
  const costOf = ({ cost, msPerInput }: TierAnswers) => cost ?? msPerInput;
  const totalMsOf = ({ msPerInput, networkMs = 0 }: TierAnswers) => msPerInput + networkMs;
  const cascade = computeClassificationMetrics(cascadeAnswers, truth, oosLabel);
  const isEdge = (position: number) => tiers[position]?.place === "edge";

  return {
    samples: truth.length,
    tiers: tiers.map((tier, position) => ({
      id: tier.id,
      ...computeClassificationMetrics(tier.answers, truth, oosLabel),
      msPerInput: tier.msPerInput,
      share: computeShare((answeringTier) => answeringTier === position, all),
      inScopeShare: computeShare((answeringTier) => answeringTier === position, inScope),
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
      ...cascade,
      edgeShare: computeShare(isEdge, all),
      inScopeEdgeShare: computeShare(isEdge, inScope),
      lossPoints:
        100 *
        (computeClassificationMetrics(last.answers, truth, oosLabel).inScopeAccuracy -
          cascade.inScopeAccuracy),
      costRatio: costOf(last) / computeMean(costOf),
      meanMs: computeMean(totalMsOf),
      lastTierMs: totalMsOf(last),
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
  const computeAccuracy = (isIncluded: (sample: number) => boolean): number | undefined => {
    const included = right.filter((_, sample) => isIncluded(sample));
    return included.length === 0 ? undefined : included.filter(Boolean).length / included.length;
  };
  const isInScope = (sample: number) => truth[sample] !== oosLabel;
  const oosRecall = computeAccuracy((sample) => !isInScope(sample));
  const oosPrecision =
    oosLabel === undefined
      ? undefined
      : computeAccuracy((sample) => answers[sample]?.label === oosLabel);
  return {
    inScopeAccuracy: computeAccuracy(isInScope) ?? 0,
    ...(oosRecall === undefined ? {} : { oosRecall }),
    ...(oosPrecision === undefined ? {} : { oosPrecision }),
    accuracy: computeAccuracy(() => true) ?? 0,
    expectedCalibrationError: computeExpectedCalibrationError(
      answers.map((answer) => answer.confidence).filter((_, sample) => isInScope(sample)),
      right.filter((_, sample) => isInScope(sample)),
    ),
  };
}

/**
 * Computes the mean distance between confidence and accuracy over bins of equal width, weighted by their samples
 * (Naeini et al. 2015).
 */
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
