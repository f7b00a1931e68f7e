// Detects a model report that no longer matches its project's graphs and calibrations.

import { tryParseJson } from "../core/json.ts";
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
  const { data } = modelReportSchema.safeParse(tryParseJson(new TextDecoder().decode(bytes)));
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
