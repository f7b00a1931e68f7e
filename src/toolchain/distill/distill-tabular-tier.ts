// Distills a tensor tier on rows of numbers into a small graph with the same input and output,
// which becomes a tier before it.

import { coreErrors } from "../../core/common-errors.ts";
import type { TensorSpec } from "../../core/tensor.ts";
import type { ModelProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { publishingErrors } from "../../registry/publishing-errors.ts";
import { parseLabelFile } from "../../tasks/labels.ts";
import { toolchainErrors } from "../errors.ts";
import { requireProjectFile } from "../evaluate/project-tier.ts";
import {
  type DistillTabularOptions,
  distillTabular,
  openTabularTeacher,
  type TabularSample,
  type TabularTeacher,
} from "./distill-tabular.ts";
import {
  selectBestInt8Student,
  type DistilledTier,
  type DistillContext,
  findStudentGraph,
  splitHoldout,
} from "./distilled-tier.ts";
import {
  type TabularStudentEvaluation,
  evaluateTabularStudents,
} from "./evaluate-tabular-students.ts";
import { findInsertPosition, type NewTierSpec } from "./insert-tier.ts";

/**
 * @param validation evaluation samples; by default, a tenth of the samples is held out
 * @throws not_distillable, no_such_tier, session_failed, not_quantizable, invalid_project
 */
export async function distillTabularTier(
  source: PublishSource,
  newTier: NewTierSpec,
  samples: readonly TabularSample[],
  validation: readonly TabularSample[] | undefined,
  options: DistillTabularOptions,
  { runner, runtime, rounds, onProgress = () => {} }: DistillContext,
): Promise<DistilledTier<TabularStudentEvaluation>> {
  const position = findInsertPosition(source.project, newTier);
  const graph = findTeacherGraph(source, newTier.teacher);
  const teacher = await openTabularTeacher(graph);
  try {
    const { training, heldOut } =
      validation === undefined
        ? splitHoldout(samples, options.seed)
        : { training: samples, heldOut: validation };
    const { students, labelOnlyBaselines } = await distillTabular(
      teacher,
      training,
      runtime,
      options,
      onProgress,
    );
    const evaluations = await evaluateTabularStudents(
      teacher,
      graph,
      [...students, ...labelOnlyBaselines],
      heldOut,
      runner,
      rounds,
    );
    const chosen = selectBestInt8Student(
      evaluations,
      students,
      ({ accuracy = 0, agreement, rSquared }) =>
        options.loss === "squares" ? rSquared : accuracy + agreement,
    );
    const tier = describeTier(newTier, teacher, chosen);
    const files = new Map([[tier.graph, findStudentGraph(students, chosen.name)]]);
    return {
      tier: { tier, files, ...position },
      evaluations,
      chosen: chosen.name,
      trainingCount: training.length,
      evaluationCount: heldOut.length,
    };
  } finally {
    await teacher.close();
  }
}

/** Returns the tier in the form of model.json. */
function describeTier(
  { id, place }: NewTierSpec,
  teacher: TabularTeacher,
  { accuracy, agreement, rSquared }: TabularStudentEvaluation,
) {
  const describePort = ({ name, datatype, shape }: TensorSpec) => ({
    name,
    datatype,
    shape: [-1, ...shape.slice(1)],
  });
  return {
    id,
    place,
    precision: "int8",
    graph: `artifacts/${id}.onnx`,
    inputs: [describePort(teacher.input)],
    outputs: [describePort(teacher.output)],
    figures: { ...(accuracy === undefined ? {} : { accuracy }), agreement, rSquared },
  };
}

/**
 * @returns a teacher that the caller closes
 * @throws not_distillable, no_such_tier, invalid_project, session_failed
 */
export async function openTabularTierAsTeacher(
  source: PublishSource,
  id: string,
): Promise<TabularTeacher> {
  return await openTabularTeacher(findTeacherGraph(source, id));
}

function findTeacherGraph(source: PublishSource, id: string): Uint8Array {
  const { model, tiers } = asTensorProject(source);
  const tier = tiers.find((candidate) => candidate.id === id);
  if (tier === undefined)
    throw coreErrors.noSuchTier(
      model,
      id,
      tiers.map((candidate) => candidate.id),
    );
  return requireProjectFile(source, tier.graph);
}

/**
 * @returns the project's labels, or an empty list if it names none
 * @throws not_distillable, invalid_project
 */
export function readTabularLabels(source: PublishSource): readonly string[] {
  const { model, labels } = asTensorProject(source);
  if (labels === undefined) return [];
  const parsed = parseLabelFile(requireProjectFile(source, labels));
  if ("problems" in parsed) throw publishingErrors.invalidProject(model, parsed.problems);
  return parsed.labels;
}

function asTensorProject({
  project,
}: PublishSource): Extract<ModelProject, { readonly task: "tensor" }> {
  if (project.task !== "tensor")
    throw toolchainErrors.notDistillable(
      `${project.model} has the task ${project.task}; a tabular student needs the task tensor`,
      "Choose another kind of student.",
    );
  return project;
}
