// What every tier of a project answers, and the report of it that is published with the model: nothing is fitted, and exits stay as they are.

import { curvesAsIs } from "../build/calibrate/calibrate-project.ts";
import { modelReportOf } from "../build/calibrate/model-report.ts";
import type { RiskBound } from "../build/calibrate/control-risk.ts";
import { type AskedProject, askProject, type PriceOptions } from "../build/judge/evaluate-project.ts";
import { fileOf } from "../build/judge/project-tier.ts";
import type { Sample } from "../build/judge/samples.ts";
import type { ModelReport } from "../protocol/report.ts";
import type { PublishSource } from "../registry/publish.ts";
import type { ClassificationProject } from "../registry/manifest.ts";
import { createProgressLine, withRunners } from "./judging.ts";

/** Asks every tier, and shows how far it is. */
export async function askAllTiers(source: PublishSource, project: ClassificationProject, samples: readonly Sample[]): Promise<AskedProject> {
  const progress = createProgressLine();
  const asked = await withRunners(({ edge, region }) => askProject(source, project, samples, { runners: { edge, region }, onProgress: ({ tier, done, of }) => progress.show(tier, done, of) }));
  progress.clear();
  return asked;
}

/** @param bound seed: of the split into samples to fit on and samples to test on; the report is of the latter */
export const asIsReport = (source: PublishSource, asked: AskedProject, bound: RiskBound & PriceOptions & { readonly seed?: number | undefined }): ModelReport =>
  modelReportOf(asked.project, curvesAsIs(asked, bound), (path) => fileOf(source, path));
