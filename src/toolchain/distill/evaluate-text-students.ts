// Evaluates text students and their teacher in the students' target runtime, on samples outside the
// training set.

import {
  type CalibrationParameters,
  LOGITS_OUTPUT,
  decodePredictions,
} from "../../cascade/calibration.ts";
import type { Preprocessor } from "../../tasks/task.ts";
import { fitTemperature, type LabeledLogits, toLabeledLogits } from "../calibrate/logit-scaling.ts";
import { computeClassificationMetrics } from "../evaluate/cascade-metrics.ts";
import {
  type CandidateGraph,
  evaluateCandidates,
  type EvaluationProgress,
} from "../evaluate/evaluate-candidates.ts";
import { encodeSamples, scoreLogits } from "../evaluate/evaluation-set.ts";
import type { LabeledSample } from "../evaluate/labeled-samples.ts";
import type { Runner } from "../evaluate/runner.ts";
import { fitOutOfScope } from "./fit-out-of-scope.ts";

export interface TextStudentEvaluation {
  readonly name: string;
  readonly bytes: number;
  readonly gzipBytes: number;
  /**
   * Median latency of one sample in the runtime; undefined for the teacher, which runs elsewhere.
   */
  readonly p50Ms: number | undefined;
  /** Share of the in-scope samples with the right label, before the out-of-scope rule applies. */
  readonly accuracy: number;
  /** Share of all samples for which the student and the teacher predict the same label. */
  readonly agreement: number;
  readonly calibration: CalibrationParameters;
  /**
   * Metrics with the calibration and its out-of-scope rule, including the accuracy that the rule
   * costs.
   */
  readonly calibrated: ReturnType<typeof computeClassificationMetrics>;
  /** Logits, one row for each sample. */
  readonly answers: readonly Float32Array[];
}

export interface EvaluateTextStudentsOptions {
  readonly labels: readonly string[];
  /** Label of out-of-scope samples, if the project detects them. */
  readonly oosLabel?: string | undefined;
  readonly runner: Runner;
  readonly preprocessor: Preprocessor;
  readonly rounds?: number;
  readonly onProgress?: ((event: EvaluationProgress) => void) | undefined;
}

/**
 * Calibrations are fitted to the same samples, so their metrics are in-sample figures.
 * @param teacherLogits logits of the teacher, one row for each sample
 * @returns the teacher first, then the candidates that could be run
 * @throws session_failed if the first candidate cannot be run
 */
export async function evaluateTextStudents(
  candidates: readonly CandidateGraph[],
  teacherLogits: readonly Float32Array[],
  samples: readonly LabeledSample[],
  options: EvaluateTextStudentsOptions,
): Promise<TextStudentEvaluation[]> {
  const { labels, oosLabel, runner, preprocessor, rounds, onProgress } = options;
  const evaluationSet = encodeSamples(samples, preprocessor, labels);
  const logitsByName = new Map<string, readonly Float32Array[]>();
  const evaluations = await evaluateCandidates(candidates, evaluationSet, {
    runner,
    bounds: { maxLossPoints: Number.POSITIVE_INFINITY },
    ...(rounds === undefined ? {} : { rounds }),
    ...(onProgress === undefined ? {} : { onProgress }),
    onLogits: ({ name }, logits) => void logitsByName.set(name, logits),
  });
  const students = evaluations.flatMap(({ name, bytes, gzipBytes, measured }) => {
    const logits = logitsByName.get(name);
    if (logits === undefined || measured === undefined) return [];
    const p50Ms = measured.latency[runner.name]?.p50Ms;
    return [evaluate({ name, bytes, gzipBytes, p50Ms }, logits)];
  });
  return [
    evaluate({ name: "teacher", bytes: 0, gzipBytes: 0, p50Ms: undefined }, teacherLogits),
    ...students,
  ];

  function evaluate(
    facts: Pick<TextStudentEvaluation, "name" | "bytes" | "gzipBytes" | "p50Ms">,
    rows: readonly Float32Array[],
  ): TextStudentEvaluation {
    const { accuracy, agreement } = scoreLogits(evaluationSet, rows, teacherLogits);
    const calibration = fitStudentCalibration(toLabeledLogits(evaluationSet, rows), oosLabel);
    const predictions = rows.flatMap((logits) =>
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
        predictions,
        samples.map(({ label }) => label),
        oosLabel,
      ),
      answers: rows,
    };
  }
}

/** Fits the temperature, and an out-of-scope rule if there are samples for it. */
function fitStudentCalibration(
  rows: readonly LabeledLogits[],
  oosLabel: string | undefined,
): CalibrationParameters {
  const temperature = rows.some(({ label }) => label >= 0) ? fitTemperature(rows) : 1;
  const outOfScope =
    oosLabel === undefined ? undefined : fitOutOfScope(rows, temperature, oosLabel);
  return { temperature, ...(outOfScope === undefined ? {} : { outOfScope }) };
}
