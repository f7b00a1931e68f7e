// The report that is published with a model, of the project as it is: nothing is fitted, and its exits stay.

import { computeCurrentCurves } from "../toolchain/calibrate/calibrate-project.ts";
import { buildModelReport } from "../toolchain/calibrate/model-report.ts";
import type { RiskBound } from "../toolchain/calibrate/control-risk.ts";
import type { ProjectRun, CostModel } from "../toolchain/evaluate/evaluate-project.ts";
import { requireProjectFile } from "../toolchain/evaluate/project-tier.ts";
import type { ModelReport } from "../protocol/model-report.ts";
import type { PublishSource } from "../registry/publish.ts";

/** @param bound seed: of the split into samples to fit on and samples to test on; the report is of the latter */
export const computeCurrentReport = (
  source: PublishSource,
  asked: ProjectRun,
  bound: RiskBound & CostModel & { readonly seed?: number | undefined },
): ModelReport =>
  buildModelReport(asked.project, computeCurrentCurves(asked, bound), (path) =>
    requireProjectFile(source, path),
  );
