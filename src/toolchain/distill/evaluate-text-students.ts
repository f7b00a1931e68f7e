// What students are worth: in the runtime that they are for, on samples that none of them has learnt, beside their teacher.

import { computeClassificationMetrics } from "../evaluate/cascade-metrics.ts";
import { encodeSamples, scoreLogits } from "../evaluate/evaluation-set.ts";
import {
  type CandidateGraph,
  evaluateCandidates,
  type EvaluationProgress,
} from "../evaluate/evaluate-candidates.ts";
import type { Runner } from "../evaluate/runner.ts";
import type { LabeledSample } from "../evaluate/labeled-samples.ts";
import { fitTemperature, type LabeledLogits, toLabeledLogits } from "../calibrate/logit-scaling.ts";
import {
  type CalibrationParameters,
  LOGITS_OUTPUT,
  decodePredictions,
} from "../../cascade/calibration.ts";
import type { Preprocessor } from "../../tasks/task.ts";
import { fitOutOfScope } from "./fit-out-of-scope.ts";

export interface TextStudentEvaluation {
  readonly name: string;
  readonly bytes: number;
  readonly gzipBytes: number;
  /** Of one sample, in the runtime; undefined for the teacher, which runs elsewhere. */
  readonly p50Ms: number | undefined;
  /** Share of the samples in scope that get the right label, before anything is called out of scope. */
  readonly accuracy: number;
  /** Share of all samples for which the teacher says the same. */
  readonly agreement: number;
  readonly calibration: CalibrationParameters;
  /** With the calibration, and its rule for what is out of scope: what such a rule costs is in it. */
  readonly calibrated: ReturnType<typeof computeClassificationMetrics>;
  /** Logits, one row for each sample. */
  readonly answers: readonly Float32Array[];
}

export interface EvaluateTextStudentsOptions {
  readonly labels: readonly string[];
  /** What the samples that have no label of the project have instead, where the project tells them. */
  readonly oosLabel?: string | undefined;
  readonly runner: Runner;
  readonly preprocessor: Preprocessor;
  readonly rounds?: number;
  readonly onProgress?: ((event: EvaluationProgress) => void) | undefined;
}

/**
 * Calibrations are fitted to the same samples: their figures are those of a fit.
 * @param teacher its logits to the samples, one row each
 * @returns the teacher first, then the candidates that could be run
 * @throws session_failed if the first cannot
 */
export async function evaluateTextStudents(
  candidates: readonly CandidateGraph[],
  teacher: readonly Float32Array[],
  samples: readonly LabeledSample[],
  options: EvaluateTextStudentsOptions,
): Promise<TextStudentEvaluation[]> {
  const { labels, oosLabel, runner, preprocessor, rounds, onProgress } = options;
  const questions = encodeSamples(samples, preprocessor, labels);
  const answers = new Map<string, readonly Float32Array[]>();
  const judgements = await evaluateCandidates(candidates, questions, {
    runner,
    bounds: { maxLossPoints: Number.POSITIVE_INFINITY },
    ...(rounds === undefined ? {} : { rounds }),
    ...(onProgress === undefined ? {} : { onProgress }),
    onLogits: ({ name }, own) => void answers.set(name, own),
  });
  const students = judgements.flatMap(({ name, bytes, gzipBytes, measured }) => {
    const own = answers.get(name);
    return own === undefined || measured === undefined
      ? []
      : [figuresOf({ name, bytes, gzipBytes, p50Ms: measured.latency[runner.name]?.p50Ms }, own)];
  });
  return [
    figuresOf({ name: "teacher", bytes: 0, gzipBytes: 0, p50Ms: undefined }, teacher),
    ...students,
  ];

  function figuresOf(
    facts: Pick<TextStudentEvaluation, "name" | "bytes" | "gzipBytes" | "p50Ms">,
    own: readonly Float32Array[],
  ): TextStudentEvaluation {
    const { accuracy, agreement } = scoreLogits(questions, own, teacher);
    const calibration = fitStudentCalibration(toLabeledLogits(questions, own), oosLabel);
    const read = own.flatMap((logits) =>
      decodePredictions(
        { [LOGITS_OUTPUT]: { datatype: "FP32", shape: [1, labels.length], data: logits } },
        1,
        labels,
        calibration,
        1,
      ),
    );
    return {
      ...facts,
      accuracy,
      agreement,
      calibration,
      calibrated: computeClassificationMetrics(
        read,
        samples.map(({ label }) => label),
        oosLabel,
      ),
      answers: own,
    };
  }
}

/** Temperature, and the rule for what is out of scope where samples show it. */
function fitStudentCalibration(
  rows: readonly LabeledLogits[],
  oosLabel: string | undefined,
): CalibrationParameters {
  const temperature = rows.some(({ label }) => label >= 0) ? fitTemperature(rows) : 1;
  const outOfScope =
    oosLabel === undefined ? undefined : fitOutOfScope(rows, temperature, oosLabel);
  return { temperature, ...(outOfScope === undefined ? {} : { outOfScope }) };
}
