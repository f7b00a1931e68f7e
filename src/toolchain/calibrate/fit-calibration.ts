// What makes one tier's confidences fit how often it is right: fitted by a named method, or by the best in cross-validation.

import {
  type Answer,
  type CalibrationParameters,
  LOGITS,
  readAnswers,
  uncalibrated,
} from "../../cascade/calibration.ts";
import { asFloat32, type NamedTensors } from "../../core/tensor.ts";
import { expectedCalibrationError } from "../judge/cascade-figures.ts";
import { fitIsotonic } from "./isotonic.ts";
import { fitTemperature, fitVector, type LabelledLogits } from "./scaling.ts";

/** The simplest first. `isotonic` maps what the temperature gives. */
export const METHODS = ["temperature", "isotonic", "vector"] as const;
export type Method = (typeof METHODS)[number];

/** The method that a calibration is of. */
export const methodOf = ({ vector, isotonic }: CalibrationParameters): Method =>
  isotonic !== undefined ? "isotonic" : vector !== undefined ? "vector" : "temperature";

/** One sample with what a tier's graph gave for it. */
export interface TierSample {
  readonly outputs: NamedTensors;
  readonly truth: string;
}

/** Of one method, on samples that it was not fitted to. */
export interface Trial {
  readonly method: Method;
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
  method: Method,
  before: CalibrationParameters,
  samples: readonly TierSample[],
  labels: readonly string[],
): CalibrationParameters {
  const positions = new Map(labels.map((label, position) => [label, position]));
  const rows = samples.map(({ outputs, truth }): LabelledLogits => ({
    logits: asFloat32(LOGITS, outputs[LOGITS], 2).data,
    label: positions.get(truth) ?? -1,
  }));
  const temperature = fitTemperature(rows);
  const { outOfScope } = uncalibrated(before);
  const scaled: CalibrationParameters = {
    temperature,
    ...(outOfScope === undefined ? {} : { outOfScope }),
  };
  switch (method) {
    case "temperature":
      return scaled;
    case "vector":
      return { ...scaled, temperature: 1, vector: fitVector(rows, temperature) };
    case "isotonic": {
      const judged = answersOf(samples, scaled, labels).flatMap(
        ({ label, confidence, outOfScope }, index) =>
          outOfScope ? [] : [{ confidence, isRight: label === samples[index]?.truth }],
      );
      return { ...scaled, isotonic: fitIsotonic(judged) };
    }
  }
}

/** As the cascade reads them. */
export function answersOf(
  samples: readonly Pick<TierSample, "outputs">[],
  calibration: CalibrationParameters,
  labels: readonly string[],
): Answer[] {
  return samples.flatMap(({ outputs }) => readAnswers(outputs, 1, labels, calibration, 1));
}

const FOLDS = 5;

/** Every method in cross-validation, the samples taken in the order that they come in. */
export function tryMethods(
  before: CalibrationParameters,
  samples: readonly TierSample[],
  labels: readonly string[],
): { readonly chosen: Method; readonly trials: readonly Trial[] } {
  const losses = new Map<Method, readonly number[]>();
  const trials = METHODS.map((method): Trial => {
    const held = Array.from({ length: FOLDS }, (_, fold) => {
      const [own, others] = [
        samples.filter((_, index) => index % FOLDS === fold),
        samples.filter((_, index) => index % FOLDS !== fold),
      ];
      const answers = answersOf(own, fitCalibration(method, before, others, labels), labels);
      return answers.map(({ confidence, label }, index) => ({
        confidence,
        isRight: label === own[index]?.truth,
      }));
    }).flat();
    const ofEach = held.map(
      ({ confidence, isRight }) =>
        -Math.log(Math.max(1e-12, isRight ? confidence : 1 - confidence)),
    );
    losses.set(method, ofEach);
    const error = expectedCalibrationError(
      held.map(({ confidence }) => confidence),
      held.map(({ isRight }) => isRight),
    );
    return { method, nll: meanOf(ofEach), expectedCalibrationError: error };
  });
  return { chosen: chooseMethod(losses), trials };
}

/** The one with the least loss, unless a simpler one is within one standard error of it (Breiman et al. 1984). */
function chooseMethod(losses: ReadonlyMap<Method, readonly number[]>): Method {
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
  return METHODS.find((method) => isAsGood(losses.get(method) ?? [])) ?? best[0];
}

const meanOf = (values: readonly number[]): number =>
  values.reduce((sum, one) => sum + one, 0) / Math.max(1, values.length);
