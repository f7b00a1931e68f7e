// Reads a calibrated answer off a tier's logits. One piece of code for every tier, wherever its graph ran.
// Temperature scaling: Guo et al. 2017, "On Calibration of Modern Neural Networks". Energy score: Liu et al. 2020,
// "Energy-based Out-of-distribution Detection".

import { errors } from "../core/errors.ts";
import { asFloat32, type NamedTensors } from "../core/tensor.ts";

export type OutOfScopeScore =
  | { readonly kind: "maxProbability" }
  | { readonly kind: "maxLogit" }
  | { readonly kind: "energy" }
  | { readonly kind: "output"; readonly output: string };

/** As in the manifest, which says how P(out of scope) follows from the score. */
export interface CalibrationParameters {
  readonly temperature: number;
  readonly outOfScope?:
    | { readonly label: string; readonly score: OutOfScopeScore; readonly threshold: number; readonly scale: number }
    | undefined;
}

export interface RankedLabel {
  readonly label: string;
  /** Calibrated probability. */
  readonly score: number;
}

/** One input's answer by one tier. */
export interface Answer {
  readonly label: string;
  /** Calibrated probability of `label`, from 0 to 1. */
  readonly confidence: number;
  readonly outOfScope: boolean;
  /** The likeliest labels, `label` first. */
  readonly ranking: readonly RankedLabel[];
}

/** Name of the output that classification reads: FP32 [batch, labels]. */
export const LOGITS = "logits";

/**
 * @param outputs of a tier's graph: `logits` FP32 [rows, labels.length], and the out-of-scope output if one is named
 * @param topK how many labels to rank
 * @throws session_failed if the outputs do not fit the labels
 */
export function readAnswers(outputs: NamedTensors, rows: number, labels: readonly string[], calibration: CalibrationParameters, topK: number): Answer[] {
  const logits = asFloat32(LOGITS, outputs[LOGITS], 2);
  if (logits.shape[0] !== rows || logits.shape[1] !== labels.length) {
    throw errors.sessionFailed(`logits have shape [${logits.shape.join(", ")}], expected [${rows}, ${labels.length}]`);
  }
  return Array.from({ length: rows }, (_, row) => {
    const ofRow = logits.data.subarray(row * labels.length, (row + 1) * labels.length);
    return readAnswer(ofRow, outOfScopeProbability(ofRow, row, outputs, calibration), labels, calibration, topK);
  });
}

function readAnswer(logits: Float32Array, outOfScope: number, labels: readonly string[], calibration: CalibrationParameters, topK: number): Answer {
  const probabilities = softmax(logits, calibration.temperature);
  const ranking = topIndices(probabilities, topK).map((index) => ({
    label: labels[index] ?? "",
    score: (probabilities[index] ?? 0) * (1 - outOfScope),
  }));
  const best = ranking[0];
  if (best === undefined || !Number.isFinite(best.score)) throw errors.sessionFailed("the logits are not finite numbers");
  if (calibration.outOfScope === undefined) return { label: best.label, confidence: best.score, outOfScope: false, ranking };

  const verdict = { label: calibration.outOfScope.label, score: outOfScope };
  if (outOfScope >= 0.5) return { label: verdict.label, confidence: outOfScope, outOfScope: true, ranking: [verdict, ...ranking].slice(0, topK) };
  const place = ranking.findIndex((one, rank) => rank > 0 && one.score < outOfScope);
  const merged = ranking.toSpliced(place === -1 ? ranking.length : place, 0, verdict).slice(0, topK);
  return { label: best.label, confidence: best.score, outOfScope: false, ranking: merged };
}

/** P(out of scope) of one row; 0 for a tier that has no such rule. */
function outOfScopeProbability(logits: Float32Array, row: number, outputs: NamedTensors, { temperature, outOfScope }: CalibrationParameters): number {
  if (outOfScope === undefined) return 0;
  const { score, threshold, scale } = outOfScope;
  switch (score.kind) {
    case "maxProbability":
      return sigmoid(scale * (threshold - Math.max(...softmax(logits, temperature))));
    case "maxLogit":
      return sigmoid(scale * (threshold - Math.max(...logits)));
    case "energy":
      return sigmoid(scale * (threshold - logSumExp(logits, temperature)));
    case "output": {
      const value = asFloat32(score.output, outputs[score.output], outputs[score.output]?.shape.length ?? 0).data[row];
      if (value === undefined) throw errors.sessionFailed(`output ${score.output} has no row ${row}`);
      return sigmoid(scale * (value - threshold));
    }
  }
}

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

function logSumExp(logits: Float32Array, temperature: number): number {
  const max = Math.max(...logits) / temperature;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit / temperature - max);
  return max + Math.log(sum);
}

export function softmax(logits: Float32Array, temperature: number): Float64Array {
  const normaliser = logSumExp(logits, temperature);
  return Float64Array.from(logits, (logit) => Math.exp(logit / temperature - normaliser));
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
