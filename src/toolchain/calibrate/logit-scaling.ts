// Fits temperature and vector scaling (Guo et al. 2017, "On Calibration of Modern Neural
// Networks").

import { softmax, type VectorScaling } from "../../cascade/calibration.ts";

/** Logits of one sample with its label. */
export interface LabeledLogits {
  readonly logits: Float32Array;
  /**
   * Position of the right label among the logits; -1 if there is none, for example for out-of-scope
   * samples.
   */
  readonly label: number;
}

export const toLabeledLogits = (
  samples: readonly { readonly label: number }[],
  logits: readonly Float32Array[],
): LabeledLogits[] =>
  samples.map(({ label }, position) => ({
    label,
    logits: logits[position] ?? new Float32Array(),
  }));

const INVERSE_TEMPERATURE_RANGE: readonly [number, number] = [0.05, 20];
const MAX_NEWTON_STEPS = 60;

/**
 * Minimizes the negative log-likelihood by Newton's method on the inverse temperature, in which the
 * loss is convex.
 */
export function fitTemperature(rows: readonly LabeledLogits[]): number {
  const labeled = rows.filter(({ label }) => label >= 0);
  let [low, high] = INVERSE_TEMPERATURE_RANGE;
  let inverse = 1;
  for (let step = 0; step < MAX_NEWTON_STEPS; step++) {
    let [slope, curvature] = [0, 0];
    for (const { logits, label } of labeled) {
      const { mean, variance } = computeMoments(logits, inverse);
      slope += mean - (logits[label] ?? 0);
      curvature += variance;
    }
    if (slope > 0) high = inverse;
    else low = inverse;
    const newton = inverse - slope / curvature;
    const next = newton > low && newton < high ? newton : (low + high) / 2;
    if (Math.abs(next - inverse) < 1e-9) break;
    inverse = next;
  }
  return roundTo6Significant(1 / inverse);
}

/**
 * Computes the moments of the logits under their softmax probabilities at this inverse temperature.
 */
function computeMoments(
  logits: Float32Array,
  inverse: number,
): { readonly mean: number; readonly variance: number } {
  let largest = Number.NEGATIVE_INFINITY;
  for (const logit of logits) if (logit > largest) largest = logit;
  let [weights, first, second] = [0, 0, 0];
  for (const logit of logits) {
    const below = logit - largest;
    const weight = Math.exp(below * inverse);
    weights += weight;
    first += weight * below;
    second += weight * below * below;
  }
  const mean = first / weights;
  return { mean: largest + mean, variance: second / weights - mean * mean };
}

const ADAM_STEPS = 80;
const ADAM_STEP_SIZE = 0.1;

/**
 * Fits a weight and a bias for each label by Adam, starting from the temperature. A ridge penalty
 * with the weight of one sample pulls both to their start, so labels with few samples stay near the
 * common temperature.
 */
export function fitVectorScaling(
  rows: readonly LabeledLogits[],
  temperature: number,
): VectorScaling {
  const labeled = rows.filter(({ label }) => label >= 0);
  const count = rows[0]?.logits.length ?? 0;
  const start = Float64Array.from({ length: 2 * count }, (_, index) =>
    index < count ? 1 / temperature : 0,
  );
  const parameters = Float64Array.from(start);
  const [mean, square] = [new Float64Array(2 * count), new Float64Array(2 * count)];
  const scaled = new Float64Array(count);
  for (let step = 1; step <= ADAM_STEPS; step++) {
    const gradient = parameters.map((value, index) => value - (start[index] ?? 0));
    for (const { logits, label } of labeled) {
      for (let index = 0; index < count; index++)
        scaled[index] =
          (logits[index] ?? 0) * (parameters[index] ?? 0) + (parameters[count + index] ?? 0);
      const probabilities = softmax(scaled, 1);
      for (let index = 0; index < count; index++) {
        const error = (probabilities[index] ?? 0) - (index === label ? 1 : 0);
        gradient[index] = (gradient[index] ?? 0) + error * (logits[index] ?? 0);
        gradient[count + index] = (gradient[count + index] ?? 0) + error;
      }
    }
    const stepSize = ADAM_STEP_SIZE * (1 - (step - 1) / ADAM_STEPS);
    gradient.forEach((sum, index) => {
      const slope = sum / Math.max(1, labeled.length);
      mean[index] = 0.9 * (mean[index] ?? 0) + 0.1 * slope;
      square[index] = 0.99 * (square[index] ?? 0) + 0.01 * slope ** 2;
      const [first, second] = [
        (mean[index] ?? 0) / (1 - 0.9 ** step),
        (square[index] ?? 0) / (1 - 0.99 ** step),
      ];
      parameters[index] =
        (parameters[index] ?? 0) - (stepSize * first) / (Math.sqrt(second) + 1e-8);
    });
  }
  const values = Array.from(parameters, roundTo6Significant);
  return { weights: values.slice(0, count), biases: values.slice(count) };
}

/** Rounds to the digits that are written, because the tested values must equal the served ones. */
export const roundTo6Significant = (value: number): number => Number(value.toPrecision(6));
