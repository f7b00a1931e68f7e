// Model report: computes the report to publish from a project's current calibrations and exits, without fitting new ones.

import type { ModelReport } from "../protocol/model-report.ts";
import type { PublishSource } from "../registry/publish.ts";
import { computeCurrentCurves } from "../toolchain/calibrate/calibrate-project.ts";
import type { RiskBound } from "../toolchain/calibrate/control-risk.ts";
import { buildModelReport } from "../toolchain/calibrate/model-report.ts";
import type { ProjectRun, CostModel } from "../toolchain/evaluate/evaluate-project.ts";
import { requireProjectFile } from "../toolchain/evaluate/project-tier.ts";

/**
 * Computes the report on the test half of the samples.
 * @param bound.seed seed of the split into fit and test samples
 */
export const computeCurrentReport = (
  source: PublishSource,
  run: ProjectRun,
  bound: RiskBound & CostModel & { readonly seed?: number | undefined },
): ModelReport =>
  buildModelReport(run.project, computeCurrentCurves(run, bound), (path) =>
    requireProjectFile(source, path),
  );
