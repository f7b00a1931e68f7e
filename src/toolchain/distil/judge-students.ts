// What students are worth: in the runtime that they are for, on samples that none of them has learnt, beside their teacher.

import { answerFigures } from "../judge/cascade-figures.ts";
import { makeExam, mark, type Question } from "../judge/exam.ts";
import { type Candidate, judge, type JudgeProgress } from "../judge/judge.ts";
import type { Runner } from "../judge/runner.ts";
import type { Sample } from "../judge/samples.ts";
import { fitTemperature, type LabelledLogits } from "../calibrate/scaling.ts";
import { type CalibrationParameters, LOGITS, readAnswers } from "../../cascade/calibration.ts";
import type { Preprocessor } from "../../tasks/task.ts";
import { fitOutOfScope } from "./out-of-scope.ts";

export interface Judged {
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
  readonly calibrated: ReturnType<typeof answerFigures>;
  /** Logits, one row for each sample. */
  readonly answers: readonly Float32Array[];
}

export interface JudgeStudentsOptions {
  readonly labels: readonly string[];
  /** What the samples that have no label of the project have instead, where the project tells them. */
  readonly oosLabel?: string | undefined;
  readonly runner: Runner;
  readonly preprocessor: Preprocessor;
  readonly rounds?: number;
  readonly onProgress?: ((event: JudgeProgress) => void) | undefined;
}

/**
 * Calibrations are fitted to the same samples: their figures are those of a fit.
 * @param teacher its logits to the samples, one row each
 * @returns the teacher first, then the candidates that could be run
 * @throws session_failed if the first cannot
 */
export async function judgeStudents(
  candidates: readonly Candidate[],
  teacher: readonly Float32Array[],
  samples: readonly Sample[],
  options: JudgeStudentsOptions,
): Promise<Judged[]> {
  const { labels, oosLabel, runner, preprocessor, rounds, onProgress } = options;
  const questions = makeExam(samples, preprocessor, labels);
  const answers = new Map<string, readonly Float32Array[]>();
  const judgements = await judge(candidates, questions, {
    runner,
    bounds: { maxLossPoints: Number.POSITIVE_INFINITY },
    ...(rounds === undefined ? {} : { rounds }),
    ...(onProgress === undefined ? {} : { onProgress }),
    onAnswers: ({ name }, own) => void answers.set(name, own),
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
    facts: Pick<Judged, "name" | "bytes" | "gzipBytes" | "p50Ms">,
    own: readonly Float32Array[],
  ): Judged {
    const { accuracy, agreement } = mark(questions, own, teacher);
    const calibration = calibrationOf(rowsOf(questions, own), oosLabel);
    const read = own.flatMap((logits) =>
      readAnswers(
        { [LOGITS]: { datatype: "FP32", shape: [1, labels.length], data: logits } },
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
      calibrated: answerFigures(
        read,
        samples.map(({ label }) => label),
        oosLabel,
      ),
      answers: own,
    };
  }
}

export const rowsOf = (
  questions: readonly Pick<Question, "label">[],
  answers: readonly Float32Array[],
): LabelledLogits[] =>
  questions.map(({ label }, position) => ({
    label,
    logits: answers[position] ?? new Float32Array(),
  }));

/** Temperature, and the rule for what is out of scope where samples show it. */
function calibrationOf(
  rows: readonly LabelledLogits[],
  oosLabel: string | undefined,
): CalibrationParameters {
  const temperature = rows.some(({ label }) => label >= 0) ? fitTemperature(rows) : 1;
  const outOfScope =
    oosLabel === undefined ? undefined : fitOutOfScope(rows, temperature, oosLabel);
  return { temperature, ...(outOfScope === undefined ? {} : { outOfScope }) };
}
