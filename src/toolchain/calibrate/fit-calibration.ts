// Fits a tier's calibration, so that its confidences match its accuracy. Cross-validation selects
// the method if none is given.

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

/** Methods, the simplest first. `isotonic` maps the confidences of temperature scaling. */
export const CALIBRATION_METHODS = ["temperature", "isotonic", "vector"] as const;
export type CalibrationMethod = (typeof CALIBRATION_METHODS)[number];

/** Returns the method that produced a calibration. */
export const calibrationMethodOf = ({
  vector,
  isotonic,
}: CalibrationParameters): CalibrationMethod =>
  isotonic !== undefined ? "isotonic" : vector !== undefined ? "vector" : "temperature";

/** Outputs of a tier's graph for one sample. */
export interface LabeledOutput {
  readonly outputs: NamedTensors;
  readonly truth: string;
}

/** Score of one method on held-out samples. */
export interface CrossValidationScore {
  readonly method: CalibrationMethod;
  /** Mean negative log-likelihood of correctness under the confidence. */
  readonly nll: number;
  readonly expectedCalibrationError: number;
}

/**
 * Keeps an out-of-scope rule, whose score continues to use the temperature that it was fitted with.
 * @param before current calibration of the tier
 * @param labels labels in the order of the logits
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
      const predictions = applyCalibration(samples, scaled, labels).flatMap(
        ({ label, confidence, outOfScope }, index) =>
          outOfScope ? [] : [{ confidence, isCorrect: label === samples[index]?.truth }],
      );
      return { ...scaled, isotonic: fitIsotonic(predictions) };
    }
  }
}

/** Decodes the outputs in the same way as the cascade does. */
export function applyCalibration(
  samples: readonly Pick<LabeledOutput, "outputs">[],
  calibration: CalibrationParameters,
  labels: readonly string[],
): TierPrediction[] {
  return samples.flatMap(({ outputs }) => decodePredictions(outputs, 1, labels, calibration, 1));
}

const FOLD_COUNT = 5;

/** Scores every method in cross-validation. Samples are assigned to folds in their order. */
export function crossValidateMethods(
  before: CalibrationParameters,
  samples: readonly LabeledOutput[],
  labels: readonly string[],
): { readonly chosen: CalibrationMethod; readonly trials: readonly CrossValidationScore[] } {
  const losses = new Map<CalibrationMethod, readonly number[]>();
  const trials = CALIBRATION_METHODS.map((method): CrossValidationScore => {
    const heldOut = Array.from({ length: FOLD_COUNT }, (_, fold) => {
      const [foldSamples, otherSamples] = [
        samples.filter((_, index) => index % FOLD_COUNT === fold),
        samples.filter((_, index) => index % FOLD_COUNT !== fold),
      ];
      const calibration = fitCalibration(method, before, otherSamples, labels);
      return applyCalibration(foldSamples, calibration, labels).map(
        ({ confidence, label }, index) => ({
          confidence,
          isCorrect: label === foldSamples[index]?.truth,
        }),
      );
    }).flat();
    const sampleLosses = heldOut.map(
      ({ confidence, isCorrect }) =>
        -Math.log(Math.max(1e-12, isCorrect ? confidence : 1 - confidence)),
    );
    losses.set(method, sampleLosses);
    const error = computeExpectedCalibrationError(
      heldOut.map(({ confidence }) => confidence),
      heldOut.map(({ isCorrect }) => isCorrect),
    );
    return { method, nll: meanOf(sampleLosses), expectedCalibrationError: error };
  });
  return { chosen: selectMethod(losses), trials };
}

/**
 * Selects the simplest method within one standard error of the least loss (Breiman et al. 1984).
 */
function selectMethod(
  losses: ReadonlyMap<CalibrationMethod, readonly number[]>,
): CalibrationMethod {
  const [best] = [...losses].toSorted(([, a], [, b]) => meanOf(a) - meanOf(b));
  if (best === undefined) throw new RangeError("There are no calibration methods to choose from.");
  const isWithinOneError = (methodLosses: readonly number[]) => {
    const differences = methodLosses.map((loss, index) => loss - (best[1][index] ?? 0));
    const mean = meanOf(differences);
    const error =
      Math.sqrt(differences.reduce((sum, difference) => sum + (difference - mean) ** 2, 0)) /
      Math.max(1, differences.length);
    return mean <= error;
  };
  return (
    CALIBRATION_METHODS.find((method) => isWithinOneError(losses.get(method) ?? [])) ?? best[0]
  );
}

const meanOf = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
