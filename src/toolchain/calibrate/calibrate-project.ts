// `edgetier model calibrate`: fits calibrations and exits to the predictions of a project's tiers,
// and writes them into model.json together with the guaranteed risk.

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
import { roundTo4Decimals } from "../round-to-4-decimals.ts";
import { writeFileAtomic } from "../write-file-atomic.ts";
import {
  type CalibratedCascade,
  calibrateCascade,
  type CalibrateCascadeOptions,
  shuffleSplit,
} from "./calibrate-cascade.ts";
import { type CalibrationCurves, computeCalibrationCurves } from "./calibration-curves.ts";
import type { RiskBound } from "./control-risk.ts";

const REPORT_FILE = "artifacts/report.json";

export interface CalibratedProject {
  readonly project: ClassificationProject;
  readonly cascade: CalibratedCascade;
  readonly curves: CalibrationCurves;
}

/**
 * Computes the curves of the current project on the samples that a calibration would test, without
 * fitting.
 */
export function computeCurrentCurves(
  run: ProjectRun,
  bound: RiskBound & CostModel & Pick<CalibrateCascadeOptions, "seed">,
): CalibrationCurves {
  const { project, tiers } = run;
  const calibrationTiers = createCalibrationTiers(run, bound);
  const profiledTiers = calibrationTiers.map((tier, position) => ({
    ...tier,
    answers: tiers[position]?.tierRun.answers ?? [],
  }));
  const thresholds = project.tiers.flatMap(({ exit }) => exit?.confidence ?? []);
  return computeCalibrationCurves(
    calibrationTiers,
    { tiers: profiledTiers, split: shuffleSplit(run.groundTruth.length, bound.seed), thresholds },
    run,
    oosLabelOf(project),
    { ...bound, deadlineMs: project.deadlineMs },
  );
}

/** @throws risk_not_reached */
export function calibrateProject(
  run: ProjectRun,
  options: Omit<CalibrateCascadeOptions, "deadlineMs" | "split"> & CostModel,
): CalibratedProject {
  const tiers = createCalibrationTiers(run, options);
  const bound = { ...options, deadlineMs: run.project.deadlineMs };
  const cascade = calibrateCascade(tiers, run, bound);
  const curves = computeCalibrationCurves(tiers, cascade, run, oosLabelOf(run.project), bound);
  const { risk: _stale, ...before } = run.project;
  const changed = {
    ...before,
    ...(cascade.risk === undefined ? {} : { risk: cascade.risk }),
    tiers: addLatency(addCalibrationErrors(applyCascade(run.project.tiers, cascade), curves), run),
    figures: { ...before.figures, ...computeCascadeFigures(run, cascade) },
  };
  return { project: requireClassification(modelProjectSchema.parse(changed)), cascade, curves };
}

/** Returns the tiers with their fitted calibrations and exits. The last tier has no exit. */
export function applyCascade(
  tiers: readonly ProjectTier[],
  { tiers: fitted, thresholds, whenSaturated }: CalibratedCascade,
): ProjectTier[] {
  return tiers.map((tier, position): ProjectTier => {
    const confidence = thresholds[position];
    const saturatedConfidence = whenSaturated?.thresholds[position];
    const saturated =
      whenSaturated === undefined || saturatedConfidence === undefined
        ? {}
        : {
            whenSaturated: { confidence: saturatedConfidence, epsilon: whenSaturated.epsilon },
          };
    const changes = {
      calibration: toManifestCalibration(fitted[position]) ?? tier.calibration,
      exit: confidence === undefined ? null : { confidence, ...saturated },
    };
    return { ...tier, ...changes };
  });
}

/** Copies the calibration, because the manifest's type has mutable arrays. */
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

function addLatency(tiers: readonly ProjectTier[], { tiers: runTiers }: ProjectRun): ProjectTier[] {
  return tiers.map((tier, position): ProjectTier => ({
    ...tier,
    p95Ms: roundTo4Decimals(
      computePercentiles(runTiers[position]?.tierRun.latenciesMs ?? []).p95Ms,
    ),
  }));
}

/** Computes the figures of the whole cascade on the tested samples. */
function computeCascadeFigures(
  { project, groundTruth }: ProjectRun,
  { tiers, thresholds, split }: CalibratedCascade,
): Record<string, number> {
  const testedTiers = tiers.map(({ id, answers, profile }, position) => ({
    id,
    place: project.tiers[position]?.place ?? "edge",
    exit: thresholds[position] === undefined ? null : { confidence: thresholds[position] },
    answers: split.test.flatMap((sample) => answers[sample] ?? []),
    msPerInput: profile.meanMs,
  }));
  const testedTruth = split.test.map((sample) => groundTruth[sample] ?? "");
  const oosLabel = oosLabelOf(project);
  const { cascade } = computeCascadeMetrics(testedTiers, testedTruth, oosLabel);
  const oosCount = testedTruth.filter((label) => label === oosLabel).length;
  const inScopeCount = testedTruth.length - oosCount;
  const oosAtEdge =
    cascade.edgeShare * testedTruth.length - cascade.inScopeEdgeShare * inScopeCount;
  const figures = {
    accuracy: cascade.accuracy,
    inScopeAccuracy: cascade.inScopeAccuracy,
    ...(cascade.oosRecall === undefined
      ? {}
      : { oosRecall: cascade.oosRecall, edgeShareOutOfScope: oosAtEdge / oosCount }),
    edgeShare: cascade.edgeShare,
    edgeShareInScope: cascade.inScopeEdgeShare,
  };
  return Object.fromEntries(
    Object.entries(figures).map(([name, value]) => [name, roundTo4Decimals(value)]),
  );
}

/**
 * Writes calibrations, exits, risk, figures and the report. All other fields of model.json keep
 * their values.
 */
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
      const calibrated = project.tiers.find(({ id }) => id === tier["id"]);
      return calibrated === undefined
        ? tier
        : {
            ...tier,
            calibration: calibrated.calibration,
            exit: calibrated.exit,
            p95Ms: calibrated.p95Ms,
            figures: calibrated.figures,
          };
    }),
    figures: project.figures,
  };
  await writeFileAtomic(path, `${JSON.stringify(after, undefined, 2)}\n`);
}

/** Writes only the report and its path in model.json. */
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
