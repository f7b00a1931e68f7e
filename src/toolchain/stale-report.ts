// Whether a project's report is of what the project has now.

import { modelReportSchema } from "../protocol/model-report.ts";
import {
  type ClassificationProject,
  isClassificationProject,
  type ModelProject,
} from "../registry/manifest.ts";
import { computeTierDigest } from "./calibrate/model-report.ts";

/** The project without a report that is of other graphs or calibrations: it would say of them what is not so. */
export function dropStaleReport(
  project: ModelProject,
  files: ReadonlyMap<string, Uint8Array>,
): ModelProject {
  if (!isClassificationProject(project) || project.report === undefined) return project;
  const { report, ...rest } = project;
  return isReportCurrent(files.get(report), rest, files) ? project : rest;
}

function isReportCurrent(
  bytes: Uint8Array | undefined,
  { tiers }: Pick<ClassificationProject, "tiers">,
  files: ReadonlyMap<string, Uint8Array>,
): boolean {
  const { data } = modelReportSchema.safeParse(parseJsonOrUndefined(bytes));
  return (
    data?.tiers.length === tiers.length &&
    tiers.every((tier, position) => {
      const graph = files.get(tier.graph);
      const told = data.tiers[position];
      return (
        graph !== undefined &&
        told?.id === tier.id &&
        told.digest === computeTierDigest(tier, graph)
      );
    })
  );
}

function parseJsonOrUndefined(bytes: Uint8Array = new Uint8Array()): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}
