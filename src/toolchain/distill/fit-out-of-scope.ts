// A rule that tells what is out of scope from a tier's logits: the score that tells it best, and a threshold below which so few
// right answers lie as may be given up. Scores and formula are the manifest's (cascade/calibration.ts).

import { argmax } from "../argmax.ts";
import { type LabeledLogits, roundTo6Significant } from "../calibrate/logit-scaling.ts";
import { type CalibrationParameters, softmax } from "../../cascade/calibration.ts";

type OutOfScopeRule = NonNullable<CalibrationParameters["outOfScope"]>;
type ScoreKind = "maxProbability" | "maxLogit" | "energy";
const SCORE_KINDS: readonly ScoreKind[] = ["maxProbability", "maxLogit", "energy"];

/** Points of the accuracy in scope that the rule may cost. */
export const DEFAULT_MAX_LOSS_POINTS = 1;

/** @returns undefined unless there are samples in scope and out of it (label -1) */
export function fitOutOfScope(
  rows: readonly LabeledLogits[],
  temperature: number,
  label: string,
  costPoints = DEFAULT_MAX_LOSS_POINTS,
): OutOfScopeRule | undefined {
  const inside = rows.filter((row) => row.label >= 0);
  const outside = rows.filter((row) => row.label < 0);
  if (inside.length === 0 || outside.length === 0) return undefined;
  const allowed = Math.floor((costPoints / 100) * inside.length);
  const tried = SCORE_KINDS.map((kind) => {
    const [within, without] = [inside, outside].map((those) =>
      those.map(({ logits }) => computeScore(kind, logits, temperature)),
    ) as [number[], number[]];
    const right = within
      .filter((_, sample) => argmax(inside[sample]?.logits ?? []) === inside[sample]?.label)
      .toSorted((a, b) => a - b);
    const least = right[allowed] ?? right.at(-1) ?? 0; // that is kept
    const below =
      right[allowed - 1] ??
      without
        .filter((score) => score < least)
        .reduce((most, score) => Math.max(most, score), least - 1);
    const threshold = (below + least) / 2;
    const recall = without.filter((score) => score < threshold).length / without.length;
    // With few samples out of scope, recalls are often the same: the area under the ROC curve tells them apart.
    return { kind, threshold, within, without, worth: recall + computeAuroc(within, without) };
  });
  const best = tried.reduce((one, other) => (other.worth > one.worth ? other : one));
  return {
    label,
    score: { kind: best.kind },
    threshold: roundTo6Significant(best.threshold),
    scale: roundTo6Significant(fitScale(best.within, best.without, best.threshold)),
  };
}

function computeScore(kind: ScoreKind, logits: Float32Array, temperature: number): number {
  const largest = logits.reduce((most, one) => Math.max(most, one), Number.NEGATIVE_INFINITY);
  if (kind === "maxLogit") return largest;
  if (kind === "maxProbability") return softmax(logits, temperature)[argmax(logits)] ?? 0;
  return (
    largest / temperature +
    Math.log(logits.reduce((sum, one) => sum + Math.exp((one - largest) / temperature), 0))
  );
}

/** Chance that a sample in scope has the higher score of the two. */
function computeAuroc(within: readonly number[], without: readonly number[]): number {
  const wins = without.reduce(
    (sum, low) =>
      sum +
      within.filter((high) => high > low).length +
      within.filter((high) => high === low).length / 2,
    0,
  );
  return wins / (within.length * without.length);
}

const [MIN_SCALE, LARGEST_SCALE, SCALES] = [0.1, 200, 200];

/** The slope of the probability with the least log-loss, samples in scope and out of it weighing the same in sum. */
function fitScale(
  within: readonly number[],
  without: readonly number[],
  threshold: number,
): number {
  const softplus = (x: number) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
  const mean = (values: readonly number[]) =>
    values.reduce((sum, one) => sum + one, 0) / values.length;
  const loss = (scale: number) =>
    mean(within.map((score) => softplus(scale * (threshold - score)))) +
    mean(without.map((score) => softplus(scale * (score - threshold))));
  const scales = Array.from(
    { length: SCALES },
    (_, step) => MIN_SCALE * (LARGEST_SCALE / MIN_SCALE) ** (step / (SCALES - 1)),
  );
  return scales.reduce((best, scale) => (loss(scale) < loss(best) ? scale : best));
}
