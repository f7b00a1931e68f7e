// A tier of texts taught to a student on hashed n-grams, which becomes a tier before it. The students are judged where the tier
// is to run, and the best one in INT8 is taken.

import { toolchainErrors } from "../errors.ts";
import { coreErrors } from "../../core/common-errors.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { getTask } from "../../tasks/tasks.ts";
import { argmax } from "../argmax.ts";
import { selectExitThreshold } from "../calibrate/exit-threshold.ts";
import { requireClassification, readProjectLabels } from "../evaluate/project-tier.ts";
import type { LabeledSample } from "../evaluate/labeled-samples.ts";
import { type DistillTextOptions, distillText, type TextSample } from "./distill-text.ts";
import {
  selectBestInt8Student,
  type DistilledTier,
  type DistillContext,
  findStudentGraph,
  splitHoldout,
} from "./distilled-tier.ts";
import { type TextStudentEvaluation, evaluateTextStudents } from "./evaluate-text-students.ts";
import { findInsertPosition, type NewTierSpec } from "./insert-tier.ts";
import { toLabeledLogits } from "../calibrate/logit-scaling.ts";
import { queryTeacher } from "./teacher.ts";
import { openTextTierAsTeacher } from "./text-teacher.ts";

/** Points that the exit may cost the student and its teacher together. */
const MAX_EXIT_LOSS_POINTS = 0.2;

/**
 * @param validation what students are judged and calibrated on; a tenth of the samples by default, and what of those has no label counts as the teacher says
 * @throws not_distillable, no_such_tier, session_failed, not_quantizable, invalid_project
 */
export async function distillTextTier(
  source: PublishSource,
  place: NewTierSpec,
  samples: readonly TextSample[],
  validation: readonly LabeledSample[] | undefined,
  options: DistillTextOptions,
  { runner, runtime, rounds, onProgress = () => {} }: DistillContext,
): Promise<DistilledTier<TextStudentEvaluation>> {
  const project = requireClassification(source.project);
  const position = findInsertPosition(project, place);
  if (project.task !== "text-classification")
    throw toolchainErrors.notDistillable(
      `${project.model} has the task ${project.task}, and a student on n-grams takes texts`,
      "Take another student.",
    );
  const teacherTier = project.tiers.find(({ id }) => id === place.teacher);
  if (teacherTier === undefined)
    throw coreErrors.noSuchTier(
      project.model,
      place.teacher,
      project.tiers.map(({ id }) => id),
    );
  const labels = readProjectLabels(source, project);
  const oosLabel = project.tiers.flatMap(
    ({ calibration }) => calibration.outOfScope?.label ?? [],
  )[0];
  const unknown = [...samples, ...(validation ?? [])].find(
    ({ label }) => label !== undefined && label !== oosLabel && !labels.includes(label),
  );
  if (unknown !== undefined)
    throw toolchainErrors.notDistillable(
      `a sample has the label ${JSON.stringify(unknown.label)}, which ${project.model} does not have`,
      "Correct the samples, or leave the label out.",
    );

  const teacher = await openTextTierAsTeacher(source, project, teacherTier);
  try {
    const { learnt, heldOut } =
      validation === undefined
        ? splitHoldout(samples, options.seed)
        : { learnt: samples, heldOut: [] };
    const distilled = await distillText(teacher, learnt, labels, runtime, options, onProgress);
    const questions =
      validation ??
      heldOut.map(({ text, label }) => ({
        input: { kind: "text", text } as const,
        label: label ?? "",
      }));
    const answers = await queryTeacher(
      teacher,
      questions.map(({ input }) => input),
      { cacheFolder: options.cacheFolder },
    );
    const ofTeacher = questions.map((_, row) =>
      answers.slice(row * labels.length, (row + 1) * labels.length),
    );
    const exam = questions.map((question, row) =>
      question.label === ""
        ? { ...question, label: labels[argmax(ofTeacher[row] ?? [])] ?? "" }
        : question,
    );

    const artifact = new TextEncoder().encode(`${JSON.stringify(options.features)}\n`);
    const candidates = [...distilled.students, ...distilled.labelOnlyBaselines];
    const judged = await evaluateTextStudents(candidates, ofTeacher, exam, {
      labels,
      oosLabel,
      runner,
      preprocessor: getTask(project.task).createPreprocessor(
        { kind: "hashed-ngrams", artifact },
        {},
      ),
      ...(rounds === undefined ? {} : { rounds }),
      onProgress: ({ done, total }) => onProgress({ step: "judge", done, total }),
    });
    const chosen = selectBestInt8Student(
      judged,
      distilled.students,
      ({ accuracy, agreement }) => accuracy + agreement,
    );
    const positions = new Map(labels.map((label, position) => [label, position]));
    const rows = toLabeledLogits(
      exam.map(({ label }) => ({ label: positions.get(label) ?? -1 })),
      chosen.answers,
    );
    const { confidence } = selectExitThreshold(
      rows,
      chosen.calibration.temperature,
      ofTeacher,
      MAX_EXIT_LOSS_POINTS,
    );
    const [graph, features] = [`artifacts/${place.id}.onnx`, `artifacts/${place.id}-features.json`];
    const tier = {
      id: place.id,
      place: place.place,
      precision: "int8",
      graph,
      preprocessor: { kind: "hashed-ngrams", artifact: features },
      inputs: [{ name: "ids", datatype: "INT32", shape: [-1, -1] }],
      outputs: [{ name: "logits", datatype: "FP32", shape: [-1, labels.length] }],
      calibration: chosen.calibration,
      exit: { confidence },
      figures: toTierFigures(chosen),
    };
    const files = new Map([
      [graph, findStudentGraph(distilled.students, chosen.name)],
      [features, artifact],
    ]);
    return {
      tier: { tier, files, ...position },
      evaluations: judged,
      chosen: chosen.name,
      trainingCount: distilled.textCount,
      evaluationCount: exam.length,
    };
  } finally {
    await teacher.close();
  }
}

const roundTo4Decimals = (share: number): number => Number(share.toFixed(4));

/** As the tiers of the reference models have them. */
function toTierFigures({
  accuracy,
  agreement,
  calibrated,
}: TextStudentEvaluation): Record<string, number> {
  const {
    inScopeAccuracy,
    oosRecall,
    oosPrecision,
    accuracy: overall,
    expectedCalibrationError,
  } = calibrated;
  const all = {
    inScopeAccuracy,
    inScopeAccuracyWithoutOutOfScope: accuracy,
    accuracy: overall,
    agreement,
    oosRecall,
    oosPrecision,
    expectedCalibrationError,
  };
  return Object.fromEntries(
    Object.entries(all).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, roundTo4Decimals(value)]],
    ),
  );
}
