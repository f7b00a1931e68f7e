// Distills a text tier into a student on hashed n-grams, which becomes a tier before it. Students
// are evaluated in the runtime of the new tier, and the best INT8 student is chosen.

import { coreErrors } from "../../core/common-errors.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { getTask } from "../../tasks/tasks.ts";
import { argmax } from "../argmax.ts";
import { selectExitThreshold } from "../calibrate/exit-threshold.ts";
import { toLabeledLogits } from "../calibrate/logit-scaling.ts";
import { toolchainErrors } from "../errors.ts";
import type { LabeledSample } from "../evaluate/labeled-samples.ts";
import {
  requireClassification,
  readProjectLabels,
  type ProjectTier,
} from "../evaluate/project-tier.ts";
import { roundTo4Decimals } from "../round-to-4-decimals.ts";
import {
  type DistilledTextStudents,
  type DistillTextOptions,
  distillText,
  type TextSample,
} from "./distill-text.ts";
import {
  selectBestInt8Student,
  type DistilledTier,
  type DistillContext,
  findStudentGraph,
  splitHoldout,
} from "./distilled-tier.ts";
import { type TextStudentEvaluation, evaluateTextStudents } from "./evaluate-text-students.ts";
import { findInsertPosition, type NewTierSpec } from "./insert-tier.ts";
import { queryTeacher } from "./teacher.ts";
import { openTextTierAsTeacher, type TextTeacher } from "./text-teacher.ts";

/** Accuracy points that the exit may cost the student and its teacher together. */
const MAX_EXIT_LOSS_POINTS = 0.2;

/**
 * @param validation samples for evaluation and calibration; by default, a tenth of the samples is
 *   held out, where the teacher's prediction replaces a missing label
 * @throws not_distillable, no_such_tier, session_failed, not_quantizable, invalid_project
 */
export async function distillTextTier(
  source: PublishSource,
  newTier: NewTierSpec,
  samples: readonly TextSample[],
  validation: readonly LabeledSample[] | undefined,
  options: DistillTextOptions,
  context: DistillContext,
): Promise<DistilledTier<TextStudentEvaluation>> {
  const { runtime, onProgress = () => {} } = context;
  const project = requireClassification(source.project);
  const position = findInsertPosition(project, newTier);
  const teacherTier = requireTextTier(project, newTier.teacher);
  const labels = readProjectLabels(source, project);
  const oosLabel = project.tiers.flatMap(
    ({ calibration }) => calibration.outOfScope?.label ?? [],
  )[0];
  rejectUnknownLabels([...samples, ...(validation ?? [])], project.model, [
    ...labels,
    ...(oosLabel === undefined ? [] : [oosLabel]),
  ]);

  const teacher = await openTextTierAsTeacher(source, project, teacherTier);
  try {
    const { training, heldOut } =
      validation === undefined
        ? splitHoldout(samples, options.seed)
        : { training: samples, heldOut: [] };
    const distilled = await distillText(teacher, training, labels, runtime, options, onProgress);
    const evaluationSet = await labelByTeacher(
      teacher,
      validation ?? heldOut.map(toLabeledSample),
      labels,
      options.cacheFolder,
    );
    const evaluations = await evaluateStudents(
      distilled,
      evaluationSet,
      { labels, oosLabel, features: encodeFeatures(options.features) },
      context,
    );
    const chosen = selectBestInt8Student(
      evaluations,
      distilled.students,
      ({ accuracy, agreement }) => accuracy + agreement,
    );
    const tier = describeTier(newTier, labels, chosen, evaluationSet);
    const files = new Map([
      [tier.graph, findStudentGraph(distilled.students, chosen.name)],
      [tier.preprocessor.artifact, encodeFeatures(options.features)],
    ]);
    return {
      tier: { tier, files, ...position },
      evaluations,
      chosen: chosen.name,
      trainingCount: distilled.textCount,
      evaluationCount: evaluationSet.samples.length,
    };
  } finally {
    await teacher.close();
  }
}

function requireTextTier(project: ClassificationProject, id: string): ProjectTier {
  if (project.task !== "text-classification")
    throw toolchainErrors.notDistillable(
      `${project.model} has the task ${project.task}; a student on n-grams needs the task text-classification`,
      "Choose another kind of student.",
    );
  const tier = project.tiers.find((candidate) => candidate.id === id);
  if (tier === undefined)
    throw coreErrors.noSuchTier(
      project.model,
      id,
      project.tiers.map((candidate) => candidate.id),
    );
  return tier;
}

function rejectUnknownLabels(
  samples: readonly { readonly label?: string | undefined }[],
  model: string,
  knownLabels: readonly string[],
): void {
  const unknown = samples.find(({ label }) => label !== undefined && !knownLabels.includes(label));
  if (unknown !== undefined)
    throw toolchainErrors.notDistillable(
      `a sample has the label ${JSON.stringify(unknown.label)}, which ${model} does not have`,
      "Correct the samples, or omit the label.",
    );
}

interface TeacherLabeledSet {
  /** Samples with labels; the teacher's prediction fills in missing ones. */
  readonly samples: readonly LabeledSample[];
  readonly teacherLogits: readonly Float32Array[];
}

/** An empty label marks an unlabeled sample. */
const toLabeledSample = ({ text, label }: TextSample): LabeledSample => ({
  input: { kind: "text", text },
  label: label ?? "",
});

async function labelByTeacher(
  teacher: TextTeacher,
  samples: readonly LabeledSample[],
  labels: readonly string[],
  cacheFolder: string | undefined,
): Promise<TeacherLabeledSet> {
  const logits = await queryTeacher(
    teacher,
    samples.map(({ input }) => input),
    { cacheFolder },
  );
  const teacherLogits = samples.map((_, row) =>
    logits.slice(row * labels.length, (row + 1) * labels.length),
  );
  return {
    teacherLogits,
    samples: samples.map((sample, row) =>
      sample.label === ""
        ? { ...sample, label: labels[argmax(teacherLogits[row] ?? [])] ?? "" }
        : sample,
    ),
  };
}

async function evaluateStudents(
  { students, labelOnlyBaselines }: DistilledTextStudents,
  { samples, teacherLogits }: TeacherLabeledSet,
  project: {
    readonly labels: readonly string[];
    readonly oosLabel: string | undefined;
    readonly features: Uint8Array;
  },
  { runner, rounds, onProgress = () => {} }: DistillContext,
): Promise<TextStudentEvaluation[]> {
  return await evaluateTextStudents([...students, ...labelOnlyBaselines], teacherLogits, samples, {
    labels: project.labels,
    oosLabel: project.oosLabel,
    runner,
    preprocessor: getTask("text-classification").createPreprocessor(
      { kind: "hashed-ngrams", artifact: project.features },
      {},
    ),
    ...(rounds === undefined ? {} : { rounds }),
    onProgress: ({ done, total }) => onProgress({ step: "judge", done, total }),
  });
}

/** Content of the preprocessor's artifact. */
const encodeFeatures = (features: DistillTextOptions["features"]): Uint8Array =>
  new TextEncoder().encode(`${JSON.stringify(features)}\n`);

/** Returns the tier in the form of model.json, with an exit against the teacher. */
function describeTier(
  { id, place }: NewTierSpec,
  labels: readonly string[],
  student: TextStudentEvaluation,
  { samples, teacherLogits }: TeacherLabeledSet,
) {
  const positions = new Map(labels.map((label, position) => [label, position]));
  const rows = toLabeledLogits(
    samples.map(({ label }) => ({ label: positions.get(label) ?? -1 })),
    student.answers,
  );
  const { confidence } = selectExitThreshold(
    rows,
    student.calibration.temperature,
    teacherLogits,
    MAX_EXIT_LOSS_POINTS,
  );
  return {
    id,
    place,
    precision: "int8",
    graph: `artifacts/${id}.onnx`,
    preprocessor: { kind: "hashed-ngrams", artifact: `artifacts/${id}-features.json` },
    inputs: [{ name: "ids", datatype: "INT32", shape: [-1, -1] }],
    outputs: [{ name: "logits", datatype: "FP32", shape: [-1, labels.length] }],
    calibration: student.calibration,
    exit: { confidence },
    figures: toTierFigures(student),
  };
}

/** Figures under the names that the reference models use. */
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
  const figures = {
    inScopeAccuracy,
    inScopeAccuracyWithoutOutOfScope: accuracy,
    accuracy: overall,
    agreement,
    oosRecall,
    oosPrecision,
    expectedCalibrationError,
  };
  return Object.fromEntries(
    Object.entries(figures).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, roundTo4Decimals(value)]],
    ),
  );
}
