// The report that is published with a model, of the project as it is: nothing is fitted, and its exits stay.

import { curvesAsIs } from "../toolchain/calibrate/calibrate-project.ts";
import { modelReportOf } from "../toolchain/calibrate/model-report.ts";
import type { RiskBound } from "../toolchain/calibrate/control-risk.ts";
import type { AskedProject, PriceOptions } from "../toolchain/judge/evaluate-project.ts";
import { fileOf } from "../toolchain/judge/project-tier.ts";
import type { ModelReport } from "../protocol/report.ts";
import type { PublishSource } from "../registry/publish.ts";

/** @param bound seed: of the split into samples to fit on and samples to test on; the report is of the latter */
export const asIsReport = (
  source: PublishSource,
  asked: AskedProject,
  bound: RiskBound & PriceOptions & { readonly seed?: number | undefined },
): ModelReport =>
  modelReportOf(asked.project, curvesAsIs(asked, bound), (path) => fileOf(source, path));
