// Fits the rule that detects out-of-scope inputs from a tier's logits. It selects the most
// discriminating score, and the threshold at which the accuracy loss reaches its limit. The
// manifest defines the scores (cascade/calibration.ts).

import { type CalibrationParameters, softmax } from "../../cascade/calibration.ts";
import { argmax } from "../argmax.ts";
import { type LabeledLogits, roundTo6Significant } from "../calibrate/logit-scaling.ts";

type OutOfScopeRule = NonNullable<CalibrationParameters["outOfScope"]>;
type ScoreKind = "maxProbability" | "maxLogit" | "energy";
const SCORE_KINDS: readonly ScoreKind[] = ["maxProbability", "maxLogit", "energy"];

/** In-scope accuracy that the rule may cost, in points. */
export const DEFAULT_MAX_LOSS_POINTS = 1;

/** @returns undefined unless there are both in-scope and out-of-scope samples (label -1) */
export function fitOutOfScope(
  rows: readonly LabeledLogits[],
  temperature: number,
  label: string,
  maxLossPoints = DEFAULT_MAX_LOSS_POINTS,
): OutOfScopeRule | undefined {
  const inScope = rows.filter((row) => row.label >= 0);
  const outOfScope = rows.filter((row) => row.label < 0);
  if (inScope.length === 0 || outOfScope.length === 0) return undefined;
  const maxLost = Math.floor((maxLossPoints / 100) * inScope.length);
  const candidates = SCORE_KINDS.map((kind) => {
    const [inScopeScores, outOfScopeScores] = [inScope, outOfScope].map((samples) =>
      samples.map(({ logits }) => computeScore(kind, logits, temperature)),
    ) as [number[], number[]];
    const correctScores = inScopeScores
      .filter((_, sample) => argmax(inScope[sample]?.logits ?? []) === inScope[sample]?.label)
      .toSorted((a, b) => a - b);
    const lowestKept = correctScores[maxLost] ?? correctScores.at(-1) ?? 0;
    const highestLost =
      correctScores[maxLost - 1] ??
      outOfScopeScores
        .filter((score) => score < lowestKept)
        .reduce((highest, score) => Math.max(highest, score), lowestKept - 1);
    const threshold = (highestLost + lowestKept) / 2;
    const recall =
      outOfScopeScores.filter((score) => score < threshold).length / outOfScopeScores.length;
    // Few out-of-scope samples often give equal recalls. The area under the ROC curve breaks such
    // ties.
    const quality = recall + computeAuroc(inScopeScores, outOfScopeScores);
    return { kind, threshold, inScopeScores, outOfScopeScores, quality };
  });
  const best = candidates.reduce((a, b) => (b.quality > a.quality ? b : a));
  return {
    label,
    score: { kind: best.kind },
    threshold: roundTo6Significant(best.threshold),
    scale: roundTo6Significant(fitScale(best.inScopeScores, best.outOfScopeScores, best.threshold)),
  };
}

function computeScore(kind: ScoreKind, logits: Float32Array, temperature: number): number {
  const largest = logits.reduce((max, logit) => Math.max(max, logit), Number.NEGATIVE_INFINITY);
  if (kind === "maxLogit") return largest;
  if (kind === "maxProbability") return softmax(logits, temperature)[argmax(logits)] ?? 0;
  return (
    largest / temperature +
    Math.log(logits.reduce((sum, logit) => sum + Math.exp((logit - largest) / temperature), 0))
  );
}

/** Probability that an in-scope sample has a higher score than an out-of-scope sample. */
function computeAuroc(inScope: readonly number[], outOfScope: readonly number[]): number {
  const wins = outOfScope.reduce(
    (sum, low) =>
      sum +
      inScope.filter((high) => high > low).length +
      inScope.filter((high) => high === low).length / 2,
    0,
  );
  return wins / (inScope.length * outOfScope.length);
}

const [MIN_SCALE, MAX_SCALE, SCALE_COUNT] = [0.1, 200, 200];

/**
 * Fits the slope of the probability by log-loss. In-scope and out-of-scope samples have the same
 * total weight.
 */
function fitScale(
  inScope: readonly number[],
  outOfScope: readonly number[],
  threshold: number,
): number {
  const softplus = (x: number) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
  const mean = (values: readonly number[]) =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  const loss = (scale: number) =>
    mean(inScope.map((score) => softplus(scale * (threshold - score)))) +
    mean(outOfScope.map((score) => softplus(scale * (score - threshold))));
  const scales = Array.from(
    { length: SCALE_COUNT },
    (_, step) => MIN_SCALE * (MAX_SCALE / MIN_SCALE) ** (step / (SCALE_COUNT - 1)),
  );
  return scales.reduce((best, scale) => (loss(scale) < loss(best) ? scale : best));
}
