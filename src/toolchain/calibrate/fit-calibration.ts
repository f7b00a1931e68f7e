// What makes one tier's confidences fit how often it is right: fitted by a named method, or by the best in cross-validation.

import {
  type TierPrediction,
  type CalibrationParameters,
  LOGITS_OUTPUT,
  decodePredictions,
  withoutCalibration,
} from "../../cascade/calibration.ts";
import { expectFloat32Tensor, type NamedTensors } from "../../core/tensor.ts";
import { computeExpectedCalibrationError } from "../evaluate/cascade-metrics.ts";
import { fitIsotonic } from "./isotonic-regression.ts";
import { fitTemperature, fitVectorScaling, type LabeledLogits } from "./logit-scaling.ts";

/** The simplest first. `isotonic` maps what the temperature gives. */
export const CALIBRATION_METHODS = ["temperature", "isotonic", "vector"] as const;
export type CalibrationMethod = (typeof CALIBRATION_METHODS)[number];

/** The method that a calibration is of. */
export const calibrationMethodOf = ({
  vector,
  isotonic,
}: CalibrationParameters): CalibrationMethod =>
  isotonic !== undefined ? "isotonic" : vector !== undefined ? "vector" : "temperature";

/** One sample with what a tier's graph gave for it. */
export interface LabeledOutput {
  readonly outputs: NamedTensors;
  readonly truth: string;
}

/** Of one method, on samples that it was not fitted to. */
export interface CrossValidationScore {
  readonly method: CalibrationMethod;
  /** Mean negative log-likelihood of an answer being right or wrong, by its confidence. */
  readonly nll: number;
  readonly expectedCalibrationError: number;
}

/**
 * An out-of-scope rule stays as it is: its score goes on being computed at the temperature that it was made with.
 * @param before what the tier has now
 * @param labels in the logits' order
 */
export function fitCalibration(
  method: CalibrationMethod,
  before: CalibrationParameters,
  samples: readonly LabeledOutput[],
  labels: readonly string[],
): CalibrationParameters {
  const positions = new Map(labels.map((label, position) => [label, position]));
  const rows = samples.map(({ outputs, truth }): LabeledLogits => ({
    logits: expectFloat32Tensor(LOGITS_OUTPUT, outputs[LOGITS_OUTPUT], 2).data,
    label: positions.get(truth) ?? -1,
  }));
  const temperature = fitTemperature(rows);
  const { outOfScope } = withoutCalibration(before);
  const scaled: CalibrationParameters = {
    temperature,
    ...(outOfScope === undefined ? {} : { outOfScope }),
  };
  switch (method) {
    case "temperature":
      return scaled;
    case "vector":
      return { ...scaled, temperature: 1, vector: fitVectorScaling(rows, temperature) };
    case "isotonic": {
      const judged = applyCalibration(samples, scaled, labels).flatMap(
        ({ label, confidence, outOfScope }, index) =>
          outOfScope ? [] : [{ confidence, isCorrect: label === samples[index]?.truth }],
      );
      return { ...scaled, isotonic: fitIsotonic(judged) };
    }
  }
}

/** As the cascade reads them. */
export function applyCalibration(
  samples: readonly Pick<LabeledOutput, "outputs">[],
  calibration: CalibrationParameters,
  labels: readonly string[],
): TierPrediction[] {
  return samples.flatMap(({ outputs }) => decodePredictions(outputs, 1, labels, calibration, 1));
}

const FOLD_COUNT = 5;

/** Every method in cross-validation, the samples taken in the order that they come in. */
export function crossValidateMethods(
  before: CalibrationParameters,
  samples: readonly LabeledOutput[],
  labels: readonly string[],
): { readonly chosen: CalibrationMethod; readonly trials: readonly CrossValidationScore[] } {
  const losses = new Map<CalibrationMethod, readonly number[]>();
  const trials = CALIBRATION_METHODS.map((method): CrossValidationScore => {
    const held = Array.from({ length: FOLD_COUNT }, (_, fold) => {
      const [own, others] = [
        samples.filter((_, index) => index % FOLD_COUNT === fold),
        samples.filter((_, index) => index % FOLD_COUNT !== fold),
      ];
      const answers = applyCalibration(own, fitCalibration(method, before, others, labels), labels);
      return answers.map(({ confidence, label }, index) => ({
        confidence,
        isCorrect: label === own[index]?.truth,
      }));
    }).flat();
    const ofEach = held.map(
      ({ confidence, isCorrect }) =>
        -Math.log(Math.max(1e-12, isCorrect ? confidence : 1 - confidence)),
    );
    losses.set(method, ofEach);
    const error = computeExpectedCalibrationError(
      held.map(({ confidence }) => confidence),
      held.map(({ isCorrect }) => isCorrect),
    );
    return { method, nll: meanOf(ofEach), expectedCalibrationError: error };
  });
  return { chosen: selectMethod(losses), trials };
}

/** The one with the least loss, unless a simpler one is within one standard error of it (Breiman et al. 1984). */
function selectMethod(
  losses: ReadonlyMap<CalibrationMethod, readonly number[]>,
): CalibrationMethod {
  const [best] = [...losses].toSorted(([, a], [, b]) => meanOf(a) - meanOf(b));
  if (best === undefined) throw new RangeError("there is no method");
  const isAsGood = (own: readonly number[]) => {
    const differences = own.map((loss, index) => loss - (best[1][index] ?? 0));
    const mean = meanOf(differences);
    const error =
      Math.sqrt(differences.reduce((sum, one) => sum + (one - mean) ** 2, 0)) /
      Math.max(1, differences.length);
    return mean <= error;
  };
  return CALIBRATION_METHODS.find((method) => isAsGood(losses.get(method) ?? [])) ?? best[0];
}

const meanOf = (values: readonly number[]): number =>
  values.reduce((sum, one) => sum + one, 0) / Math.max(1, values.length);
