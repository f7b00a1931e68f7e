// Calibration: decodes a tier's logits to calibrated predictions, with the same code for edge and region tiers.
// Temperature and vector scaling: Guo et al. 2017, "On Calibration of Modern Neural Networks". Isotonic regression: Zadrozny
// and Elkan 2002, "Transforming Classifier Scores into Accurate Multiclass Probability Estimates". Energy score: Liu et al.
// 2020, "Energy-based Out-of-distribution Detection".

import { coreErrors } from "../core/common-errors.ts";
import { expectFloat32Tensor, type NamedTensors } from "../core/tensor.ts";

export type OutOfScopeScore =
  | { readonly kind: "maxProbability" }
  | { readonly kind: "maxLogit" }
  | { readonly kind: "energy" }
  | { readonly kind: "output"; readonly output: string };

/** Calibration parameters; the manifest documents each of them. */
export interface CalibrationParameters {
  readonly temperature: number;
  readonly vector?: VectorScaling | undefined;
  readonly isotonic?: IsotonicMap | undefined;
  readonly outOfScope?:
    | {
        readonly label: string;
        readonly score: OutOfScopeScore;
        readonly temperature?: number | undefined;
        readonly threshold: number;
        readonly scale: number;
      }
    | undefined;
}

/** Affine transformation of the logits, with one weight and bias per label. */
export interface VectorScaling {
  readonly weights: readonly number[];
  readonly biases: readonly number[];
}

/** Piecewise linear, ascending map through these points; constant before the first and after the last. */
export interface IsotonicMap {
  readonly confidence: readonly number[];
  readonly calibrated: readonly number[];
}

export interface RankedLabel {
  readonly label: string;
  /** Calibrated probability. */
  readonly score: number;
}

/** Removes the calibration, so that confidences are the graph's own. */
export function withoutCalibration({
  temperature,
  outOfScope,
}: CalibrationParameters): CalibrationParameters {
  return {
    temperature: 1,
    ...(outOfScope === undefined ? {} : { outOfScope: { temperature, ...outOfScope } }),
  };
}

/** Prediction of one tier for one input. */
export interface TierPrediction {
  readonly label: string;
  /** Calibrated probability of `label`, from 0 to 1. */
  readonly confidence: number;
  readonly outOfScope: boolean;
  /** The most probable labels, `label` first. */
  readonly ranking: readonly RankedLabel[];
}

/** Name of the output with the logits, FP32 [batch, labels]. */
export const LOGITS_OUTPUT = "logits";

/**
 * @param outputs outputs of a tier's graph: `logits` FP32 [rows, labels.length], and the out-of-scope output if one is configured
 * @param topK number of ranked labels
 * @throws session_failed if the outputs do not fit the labels
 */
export function decodePredictions(
  outputs: NamedTensors,
  rows: number,
  labels: readonly string[],
  calibration: CalibrationParameters,
  topK: number,
): TierPrediction[] {
  const logits = expectFloat32Tensor(LOGITS_OUTPUT, outputs[LOGITS_OUTPUT], 2);
  if (logits.shape[0] !== rows || logits.shape[1] !== labels.length) {
    throw coreErrors.sessionFailed(
      `logits have shape [${logits.shape.join(", ")}], expected [${rows}, ${labels.length}]`,
    );
  }
  return Array.from({ length: rows }, (_, row) => {
    const rowLogits = logits.data.subarray(row * labels.length, (row + 1) * labels.length);
    return decodePrediction(
      rowLogits,
      outOfScopeProbability(rowLogits, row, outputs, calibration),
      labels,
      calibration,
      topK,
    );
  });
}

function decodePrediction(
  logits: Float32Array,
  outOfScope: number,
  labels: readonly string[],
  calibration: CalibrationParameters,
  topK: number,
): TierPrediction {
  const probabilities = softmax(
    applyVectorScaling(logits, calibration.vector),
    calibration.temperature,
  );
  const scored = topIndices(probabilities, topK).map((index) => ({
    label: labels[index] ?? "",
    score: (probabilities[index] ?? 0) * (1 - outOfScope),
  }));
  const ranking =
    calibration.isotonic === undefined ? scored : calibrateRanking(scored, calibration.isotonic);
  const best = ranking[0];
  if (best === undefined || !Number.isFinite(best.score))
    throw coreErrors.sessionFailed("the logits are not finite numbers");
  if (calibration.outOfScope === undefined)
    return { label: best.label, confidence: best.score, outOfScope: false, ranking };

  const verdict = { label: calibration.outOfScope.label, score: outOfScope };
  if (outOfScope >= 0.5)
    return {
      label: verdict.label,
      confidence: outOfScope,
      outOfScope: true,
      ranking: [verdict, ...scored].slice(0, topK),
    };
  const position = ranking.findIndex(({ score }, rank) => rank > 0 && score < outOfScope);
  const merged = ranking
    .toSpliced(position === -1 ? ranking.length : position, 0, verdict)
    .slice(0, topK);
  return { label: best.label, confidence: best.score, outOfScope: false, ranking: merged };
}

/** @throws session_failed if the scaling has another number of labels */
function applyVectorScaling(
  logits: Float32Array,
  vector: VectorScaling | undefined,
): Float32Array | Float64Array {
  if (vector === undefined) return logits;
  const { weights, biases } = vector;
  if (weights.length !== logits.length || biases.length !== logits.length)
    throw coreErrors.sessionFailed(
      `the calibration has ${weights.length} weights, expected ${logits.length}`,
    );
  const values = new Float64Array(logits.length);
  for (let index = 0; index < logits.length; index++)
    values[index] = (logits[index] ?? 0) * (weights[index] ?? 1) + (biases[index] ?? 0);
  return values;
}

/** Maps the first score and rescales the others to the remaining probability, none above the first. */
function calibrateRanking(ranking: readonly RankedLabel[], isotonic: IsotonicMap): RankedLabel[] {
  const before = ranking[0]?.score ?? 0;
  const after = applyIsotonic(isotonic, before);
  const rest = ranking.slice(1).reduce((sum, { score }) => sum + score, 0);
  const scale = before < 1 ? (1 - after) / Math.max(1 - before, rest) : 0; // if `before` is close to 1, `1 - before` is below its rounding error
  return ranking.map(({ label, score }, rank) => ({
    label,
    score: rank === 0 ? after : Math.min(after, score * scale),
  }));
}

/** @returns NaN for NaN */
export function applyIsotonic({ confidence, calibrated }: IsotonicMap, value: number): number {
  const above = confidence.findIndex((point) => point > value);
  if (above === 0 || confidence.length === 0) return calibrated[0] ?? value;
  const [last, next] =
    above === -1 ? [confidence.length - 1, confidence.length - 1] : [above - 1, above];
  const [x0 = 0, x1 = 0, y0 = 0, y1 = 0] = [
    confidence[last],
    confidence[next],
    calibrated[last],
    calibrated[next],
  ];
  if (Number.isNaN(value)) return value;
  return x1 === x0 ? y0 : y0 + ((y1 - y0) * (value - x0)) / (x1 - x0);
}

/** P(out of scope) of one row; 0 without an out-of-scope rule. */
function outOfScopeProbability(
  logits: Float32Array,
  row: number,
  outputs: NamedTensors,
  calibration: CalibrationParameters,
): number {
  if (calibration.outOfScope === undefined) return 0;
  const { score, threshold, scale, temperature = calibration.temperature } = calibration.outOfScope;
  switch (score.kind) {
    case "maxProbability":
      return sigmoid(scale * (threshold - maxOf(softmax(logits, temperature))));
    case "maxLogit":
      return sigmoid(scale * (threshold - maxOf(logits)));
    case "energy":
      return sigmoid(scale * (threshold - logSumExp(logits, temperature)));
    case "output": {
      const value = expectFloat32Tensor(
        score.output,
        outputs[score.output],
        outputs[score.output]?.shape.length ?? 0,
      ).data[row];
      if (value === undefined)
        throw coreErrors.sessionFailed(`output ${score.output} has no row ${row}`);
      return sigmoid(scale * (value - threshold));
    }
  }
}

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

function logSumExp(logits: Float32Array, temperature: number): number {
  const max = maxOf(logits);
  let sum = 0;
  for (const logit of logits) sum += Math.exp((logit - max) / temperature);
  return max / temperature + Math.log(sum);
}

export function softmax(logits: Float32Array | Float64Array, temperature: number): Float64Array {
  const max = maxOf(logits);
  const probabilities = new Float64Array(logits.length);
  let sum = 0;
  for (let index = 0; index < logits.length; index++)
    sum += probabilities[index] = Math.exp(((logits[index] ?? 0) - max) / temperature);
  for (let index = 0; index < probabilities.length; index++)
    probabilities[index] = (probabilities[index] ?? 0) / sum;
  return probabilities;
}

/** @returns NaN if a value is NaN */
function maxOf(values: Float32Array | Float64Array): number {
  let largest = Number.NEGATIVE_INFINITY;
  for (const value of values) largest = Math.max(largest, value);
  return largest;
}

/** Indices of the `count` largest values, largest first; the lower index first among equals. */
function topIndices(values: Float64Array, count: number): number[] {
  const top: number[] = [];
  for (let index = 0; index < values.length; index++) {
    const value = values[index] ?? 0;
    let rank = top.length;
    while (rank > 0 && (values[top[rank - 1] ?? 0] ?? 0) < value) rank--;
    if (rank >= count) continue;
    top.splice(rank, 0, index);
    if (top.length > count) top.pop();
  }
  return top;
}
