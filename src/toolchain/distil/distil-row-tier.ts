// A tensor tier on rows of numbers taught to a small graph with the same input and output, which becomes a tier before it.

import { coreErrors } from "../../core/common-errors.ts";
import { publishingErrors } from "../../registry/publishing-errors.ts";
import { toolchainErrors } from "../errors.ts";
import type { TensorSpec } from "../../core/tensor.ts";
import type { ModelProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { readLabels } from "../../tasks/labels.ts";
import { fileOf } from "../judge/project-tier.ts";
import {
  type DistilRowsOptions,
  distilRows,
  openRowTeacher,
  type RowSample,
  type RowTeacher,
} from "./distil-rows.ts";
import {
  bestOf,
  type DistilledTier,
  type DistilTools,
  graphOf,
  holdOut,
} from "./distilled-tier.ts";
import { type JudgedRows, judgeRows } from "./judge-rows.ts";
import { positionFor, type TierPlace } from "./place-tier.ts";

/** @param validation as of `distilTextTier` @throws not_distillable, no_such_tier, session_failed, not_quantisable, invalid_project */
export async function distilRowTier(
  source: PublishSource,
  place: TierPlace,
  samples: readonly RowSample[],
  validation: readonly RowSample[] | undefined,
  options: DistilRowsOptions,
  { runner, runtime, rounds, onProgress = () => {} }: DistilTools,
): Promise<DistilledTier<JudgedRows>> {
  const position = positionFor(source.project, place);
  const graph = teacherGraphOf(source, place.teacher);
  const teacher = await openRowTeacher(graph);
  try {
    const { learnt, heldOut } =
      validation === undefined
        ? holdOut(samples, options.seed)
        : { learnt: samples, heldOut: validation };
    const { students, labelsAlone } = await distilRows(
      teacher,
      learnt,
      runtime,
      options,
      onProgress,
    );
    const judged = await judgeRows(
      teacher,
      graph,
      [...students, ...labelsAlone],
      heldOut,
      runner,
      rounds,
    );
    const chosen = bestOf(judged, students, ({ accuracy = 0, agreement, rSquared }) =>
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
      tier: { tier, files: new Map([[path, graphOf(students, chosen.name)]]), ...position },
      judged,
      chosen: chosen.name,
      learnt: learnt.length,
      judgedOn: heldOut.length,
    };
  } finally {
    await teacher.close();
  }
}

/** To be closed. @throws not_distillable, no_such_tier, invalid_project, session_failed */
export async function openTierOfRows(source: PublishSource, id: string): Promise<RowTeacher> {
  return await openRowTeacher(teacherGraphOf(source, id));
}

function teacherGraphOf(source: PublishSource, id: string): Uint8Array {
  const { model, tiers } = tensorProjectOf(source);
  const tier = tiers.find((one) => one.id === id);
  if (tier === undefined)
    throw coreErrors.noSuchTier(
      model,
      id,
      tiers.map((one) => one.id),
    );
  return fileOf(source, tier.graph);
}

/** None where the project names none. @throws not_distillable, invalid_project */
export function labelsOfRows(source: PublishSource): readonly string[] {
  const { model, labels } = tensorProjectOf(source);
  if (labels === undefined) return [];
  const read = readLabels(fileOf(source, labels));
  if ("problems" in read) throw publishingErrors.invalidProject(model, read.problems);
  return read.labels;
}

function tensorProjectOf({
  project,
}: PublishSource): Extract<ModelProject, { readonly task: "tensor" }> {
  if (project.task !== "tensor")
    throw toolchainErrors.notDistillable(
      `${project.model} has the task ${project.task}, and a tabular student takes tensors`,
      "Take another student.",
    );
  return project;
}
