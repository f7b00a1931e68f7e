// Detects a model report that no longer matches its project's graphs and calibrations.

import { modelReportSchema } from "../protocol/model-report.ts";
import {
  type ClassificationProject,
  isClassificationProject,
  type ModelProject,
} from "../registry/manifest.ts";
import { computeTierDigest } from "./calibrate/model-report.ts";

/** Removes a report of other graphs or calibrations, because its figures would be wrong. */
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
      const reported = data.tiers[position];
      return (
        graph !== undefined &&
        reported?.id === tier.id &&
        reported.digest === computeTierDigest(tier, graph)
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
