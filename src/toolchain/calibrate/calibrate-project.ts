// `edgetier model calibrate`: a project's tiers, having answered samples, get calibrations and exits; and model.json says for what.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { ModelReport } from "../../protocol/model-report.ts";
import { type ClassificationProject, modelProjectSchema } from "../../registry/manifest.ts";
import { computeCascadeMetrics } from "../evaluate/cascade-metrics.ts";
import {
  type ProjectRun,
  oosLabelOf,
  type CostModel,
  createCalibrationTiers,
} from "../evaluate/evaluate-project.ts";
import { requireClassification, type ProjectTier } from "../evaluate/project-tier.ts";
import { computePercentiles } from "../evaluate/slo.ts";
import { PROJECT_FILE } from "../project.ts";
import { writeFileAtomic } from "../write-file-atomic.ts";
import {
  type CalibratedCascade,
  calibrateCascade,
  type CalibrateCascadeOptions,
  shuffleSplit,
} from "./calibrate-cascade.ts";
import type { RiskBound } from "./control-risk.ts";
import { type CalibrationCurves, computeCalibrationCurves } from "./calibration-curves.ts";

const REPORT_FILE = "artifacts/report.json";

export interface CalibratedProject {
  readonly project: ClassificationProject;
  readonly cascade: CalibratedCascade;
  readonly curves: CalibrationCurves;
}

/** What it does with the samples that it would be tested on if it were calibrated: as it is, nothing is fitted. */
export function computeCurrentCurves(
  asked: ProjectRun,
  bound: RiskBound & CostModel & Pick<CalibrateCascadeOptions, "seed">,
): CalibrationCurves {
  const { project, tiers } = asked;
  const priced = createCalibrationTiers(asked, bound);
  const answered = priced.map((tier, position) => ({
    ...tier,
    answers: tiers[position]?.tierRun.answers ?? [],
  }));
  const thresholds = project.tiers.flatMap(({ exit }) => exit?.confidence ?? []);
  return computeCalibrationCurves(
    priced,
    { tiers: answered, split: shuffleSplit(asked.groundTruth.length, bound.seed), thresholds },
    asked,
    oosLabelOf(project),
    { ...bound, deadlineMs: project.deadlineMs },
  );
}

/** @throws risk_not_reached */
export function calibrateProject(
  asked: ProjectRun,
  options: Omit<CalibrateCascadeOptions, "deadlineMs" | "split"> & CostModel,
): CalibratedProject {
  const tiers = createCalibrationTiers(asked, options);
  const bound = { ...options, deadlineMs: asked.project.deadlineMs };
  const cascade = calibrateCascade(tiers, asked, bound);
  const curves = computeCalibrationCurves(tiers, cascade, asked, oosLabelOf(asked.project), bound);
  const { risk: _stale, ...before } = asked.project;
  const changed = {
    ...before,
    ...(cascade.risk === undefined ? {} : { risk: cascade.risk }),
    tiers: addLatency(
      addCalibrationErrors(applyCascade(asked.project.tiers, cascade), curves),
      asked,
    ),
    figures: { ...before.figures, ...computeCascadeFigures(asked, cascade) },
  };
  return { project: requireClassification(modelProjectSchema.parse(changed)), cascade, curves };
}

/** The tiers with what was fitted to them; the last has no exit. */
export function applyCascade(
  tiers: readonly ProjectTier[],
  { tiers: fitted, thresholds, whenSaturated }: CalibratedCascade,
): ProjectTier[] {
  return tiers.map((tier, position): ProjectTier => {
    const [confidence, lower] = [thresholds[position], whenSaturated?.thresholds[position]];
    const saturated =
      whenSaturated === undefined || lower === undefined
        ? {}
        : { whenSaturated: { confidence: lower, epsilon: whenSaturated.epsilon } };
    const changes = {
      calibration: toManifestCalibration(fitted[position]) ?? tier.calibration,
      exit: confidence === undefined ? null : { confidence, ...saturated },
    };
    return { ...tier, ...changes };
  });
}

/** Of arrays that may be written to. */
function toManifestCalibration(
  fitted: CalibratedCascade["tiers"][number] | undefined,
): ProjectTier["calibration"] | undefined {
  if (fitted === undefined) return undefined;
  const { vector, isotonic, temperature, outOfScope } = fitted.calibration;
  return {
    temperature,
    ...(vector === undefined
      ? {}
      : { vector: { weights: [...vector.weights], biases: [...vector.biases] } }),
    ...(isotonic === undefined
      ? {}
      : {
          isotonic: { confidence: [...isotonic.confidence], calibrated: [...isotonic.calibrated] },
        }),
    ...(outOfScope === undefined ? {} : { outOfScope }),
  };
}

const roundTo4Decimals = (value: number): number => Number(value.toFixed(4));

function addCalibrationErrors(
  tiers: readonly ProjectTier[],
  { reliability }: CalibrationCurves,
): ProjectTier[] {
  return tiers.map((tier, position): ProjectTier => {
    const { before, after } = reliability[position] ?? {};
    if (before === undefined || after === undefined) return tier;
    const errors = {
      expectedCalibrationErrorBefore: roundTo4Decimals(before.expectedCalibrationError),
      expectedCalibrationError: roundTo4Decimals(after.expectedCalibrationError),
    };
    return { ...tier, figures: { ...tier.figures, ...errors } };
  });
}

function addLatency(tiers: readonly ProjectTier[], { tiers: asked }: ProjectRun): ProjectTier[] {
  return tiers.map((tier, position): ProjectTier => ({
    ...tier,
    p95Ms: roundTo4Decimals(computePercentiles(asked[position]?.tierRun.latenciesMs ?? []).p95Ms),
  }));
}

/** The cascade's, on the tested samples. */
function computeCascadeFigures(
  { project, groundTruth: truth }: ProjectRun,
  { tiers, thresholds, split: parts }: CalibratedCascade,
): Record<string, number> {
  const tested = tiers.map(({ id, answers, profile: price }, position) => ({
    id,
    place: project.tiers[position]?.place ?? "edge",
    exit: thresholds[position] === undefined ? null : { confidence: thresholds[position] },
    answers: parts.test.flatMap((sample) => answers[sample] ?? []),
    msPerInput: price.meanMs,
  }));
  const ofTested = parts.test.map((sample) => truth[sample] ?? "");
  const { cascade } = computeCascadeMetrics(tested, ofTested, oosLabelOf(project));
  const outside = ofTested.filter((label) => label === oosLabelOf(project)).length;
  const outsideAtEdge =
    cascade.edgeShare * ofTested.length - cascade.inScopeEdgeShare * (ofTested.length - outside);
  const figures = {
    accuracy: cascade.accuracy,
    inScopeAccuracy: cascade.inScopeAccuracy,
    ...(cascade.oosRecall === undefined
      ? {}
      : { oosRecall: cascade.oosRecall, edgeShareOutOfScope: outsideAtEdge / outside }),
    edgeShare: cascade.edgeShare,
    edgeShareInScope: cascade.inScopeEdgeShare,
  };
  return Object.fromEntries(
    Object.entries(figures).map(([name, value]) => [name, roundTo4Decimals(value)]),
  );
}

/** What model.json has beyond calibrations, exits, risk, figures and the report stays as it is written there. */
export async function writeCalibratedProject(
  folder: string,
  project: ClassificationProject,
  report: ModelReport,
): Promise<void> {
  await writeReport(folder, report);
  const path = join(folder, PROJECT_FILE);
  const {
    risk: _before,
    tiers,
    ...others
  }: { risk?: unknown; tiers: Record<string, unknown>[] } = JSON.parse(
    await readFile(path, "utf8"),
  );
  const after = {
    ...others,
    report: REPORT_FILE,
    ...(project.risk === undefined ? {} : { risk: project.risk }),
    tiers: tiers.map((tier) => {
      const own = project.tiers.find(({ id }) => id === tier["id"]);
      return own === undefined
        ? tier
        : {
            ...tier,
            calibration: own.calibration,
            exit: own.exit,
            p95Ms: own.p95Ms,
            figures: own.figures,
          };
    }),
    figures: project.figures,
  };
  await writeFileAtomic(path, `${JSON.stringify(after, undefined, 2)}\n`);
}

/** The report alone, and its name in model.json. */
export async function writeReportOnly(folder: string, report: ModelReport): Promise<void> {
  await writeReport(folder, report);
  const path = join(folder, PROJECT_FILE);
  const before: object = JSON.parse(await readFile(path, "utf8"));
  await writeFileAtomic(
    path,
    `${JSON.stringify({ ...before, report: REPORT_FILE }, undefined, 2)}\n`,
  );
}

const writeReport = async (folder: string, report: ModelReport) =>
  await writeFileAtomic(join(folder, REPORT_FILE), JSON.stringify(report));
