// A tensor tier on rows of numbers taught to a small graph with the same input and output, which becomes a tier before it.

import { coreErrors } from "../../core/common-errors.ts";
import { publishingErrors } from "../../registry/publishing-errors.ts";
import { toolchainErrors } from "../errors.ts";
import type { TensorSpec } from "../../core/tensor.ts";
import type { ModelProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { parseLabelFile } from "../../tasks/labels.ts";
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

/** @param validation as of `distillTextTier` @throws not_distillable, no_such_tier, session_failed, not_quantizable, invalid_project */
export async function distillTabularTier(
  source: PublishSource,
  place: NewTierSpec,
  samples: readonly TabularSample[],
  validation: readonly TabularSample[] | undefined,
  options: DistillTabularOptions,
  { runner, runtime, rounds, onProgress = () => {} }: DistillContext,
): Promise<DistilledTier<TabularStudentEvaluation>> {
  const position = findInsertPosition(source.project, place);
  const graph = findTeacherGraph(source, place.teacher);
  const teacher = await openTabularTeacher(graph);
  try {
    const { learnt, heldOut } =
      validation === undefined
        ? splitHoldout(samples, options.seed)
        : { learnt: samples, heldOut: validation };
    const { students, labelOnlyBaselines: labelsAlone } = await distillTabular(
      teacher,
      learnt,
      runtime,
      options,
      onProgress,
    );
    const judged = await evaluateTabularStudents(
      teacher,
      graph,
      [...students, ...labelsAlone],
      heldOut,
      runner,
      rounds,
    );
    const chosen = selectBestInt8Student(
      judged,
      students,
      ({ accuracy = 0, agreement, rSquared }) =>
        options.loss === "squares" ? rSquared : accuracy + agreement,
    );
    const path = `artifacts/${place.id}.onnx`;
    const port = ({ name, datatype, shape }: TensorSpec) => ({
      name,
      datatype,
      shape: [-1, ...shape.slice(1)],
    });
    const {
      p50Ms: _p50,
      bytes: _bytes,
      gzipBytes: _gzip,
      name: _name,
      accuracy,
      ...figures
    } = chosen;
    const tier = {
      id: place.id,
      place: place.place,
      precision: "int8",
      graph: path,
      inputs: [port(teacher.input)],
      outputs: [port(teacher.output)],
      figures: { ...(accuracy === undefined ? {} : { accuracy }), ...figures },
    };
    return {
      tier: {
        tier,
        files: new Map([[path, findStudentGraph(students, chosen.name)]]),
        ...position,
      },
      evaluations: judged,
      chosen: chosen.name,
      trainingCount: learnt.length,
      evaluationCount: heldOut.length,
    };
  } finally {
    await teacher.close();
  }
}

/** To be closed. @throws not_distillable, no_such_tier, invalid_project, session_failed */
export async function openTabularTierAsTeacher(
  source: PublishSource,
  id: string,
): Promise<TabularTeacher> {
  return await openTabularTeacher(findTeacherGraph(source, id));
}

function findTeacherGraph(source: PublishSource, id: string): Uint8Array {
  const { model, tiers } = asTensorProject(source);
  const tier = tiers.find((one) => one.id === id);
  if (tier === undefined)
    throw coreErrors.noSuchTier(
      model,
      id,
      tiers.map((one) => one.id),
    );
  return requireProjectFile(source, tier.graph);
}

/** None where the project names none. @throws not_distillable, invalid_project */
export function readTabularLabels(source: PublishSource): readonly string[] {
  const { model, labels } = asTensorProject(source);
  if (labels === undefined) return [];
  const read = parseLabelFile(requireProjectFile(source, labels));
  if ("problems" in read) throw publishingErrors.invalidProject(model, read.problems);
  return read.labels;
}

function asTensorProject({
  project,
}: PublishSource): Extract<ModelProject, { readonly task: "tensor" }> {
  if (project.task !== "tensor")
    throw toolchainErrors.notDistillable(
      `${project.model} has the task ${project.task}, and a tabular student takes tensors`,
      "Take another student.",
    );
  return project;
}
