// `edgetier model calibrate`: a project's tiers, having answered samples, get calibrations and exits; and model.json says for what.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { ModelReport } from "../../protocol/report.ts";
import { type ClassificationProject, modelProjectSchema } from "../../registry/manifest.ts";
import { cascadeFigures } from "../judge/cascade-figures.ts";
import {
  type AskedProject,
  oosLabelOf,
  type PriceOptions,
  pricedTiers,
} from "../judge/evaluate-project.ts";
import { classificationOf, type TierProject } from "../judge/project-tier.ts";
import { percentiles } from "../judge/slo.ts";
import { PROJECT_FILE } from "../project.ts";
import { writeWhole } from "../write-whole.ts";
import {
  type CalibratedCascade,
  calibrateCascade,
  type CalibrateOptions,
  shuffledParts,
} from "./calibrate-cascade.ts";
import type { RiskBound } from "./control-risk.ts";
import { type CalibrationCurves, calibrationCurves } from "./curves.ts";

const REPORT_FILE = "artifacts/report.json";

export interface CalibratedProject {
  readonly project: ClassificationProject;
  readonly cascade: CalibratedCascade;
  readonly curves: CalibrationCurves;
}

/** What it does with the samples that it would be tested on if it were calibrated: as it is, nothing is fitted. */
export function curvesAsIs(
  asked: AskedProject,
  bound: RiskBound & PriceOptions & Pick<CalibrateOptions, "seed">,
): CalibrationCurves {
  const { project, tiers } = asked;
  const priced = pricedTiers(asked, bound);
  const answered = priced.map((tier, position) => ({
    ...tier,
    answers: tiers[position]?.asked.answers ?? [],
  }));
  const thresholds = project.tiers.flatMap(({ exit }) => exit?.confidence ?? []);
  return calibrationCurves(
    priced,
    { tiers: answered, parts: shuffledParts(asked.truth.length, bound.seed), thresholds },
    asked,
    oosLabelOf(project),
    { ...bound, deadlineMs: project.deadlineMs },
  );
}

/** @throws risk_not_reached */
export function calibrateProject(
  asked: AskedProject,
  options: Omit<CalibrateOptions, "deadlineMs" | "parts"> & PriceOptions,
): CalibratedProject {
  const tiers = pricedTiers(asked, options);
  const bound = { ...options, deadlineMs: asked.project.deadlineMs };
  const cascade = calibrateCascade(tiers, asked, bound);
  const curves = calibrationCurves(tiers, cascade, asked, oosLabelOf(asked.project), bound);
  const { risk: _stale, ...before } = asked.project;
  const changed = {
    ...before,
    ...(cascade.risk === undefined ? {} : { risk: cascade.risk }),
    tiers: withLatency(withFigures(withCascade(asked.project.tiers, cascade), curves), asked),
    figures: { ...before.figures, ...figuresOf(asked, cascade) },
  };
  return { project: classificationOf(modelProjectSchema.parse(changed)), cascade, curves };
}

/** The tiers with what was fitted to them; the last has no exit. */
export function withCascade(
  tiers: readonly TierProject[],
  { tiers: fitted, thresholds, whenSaturated }: CalibratedCascade,
): TierProject[] {
  return tiers.map((tier, position): TierProject => {
    const [confidence, lower] = [thresholds[position], whenSaturated?.thresholds[position]];
    const saturated =
      whenSaturated === undefined || lower === undefined
        ? {}
        : { whenSaturated: { confidence: lower, epsilon: whenSaturated.epsilon } };
    const changes = {
      calibration: modelCalibration(fitted[position]) ?? tier.calibration,
      exit: confidence === undefined ? null : { confidence, ...saturated },
    };
    return { ...tier, ...changes };
  });
}

/** Of arrays that may be written to. */
function modelCalibration(
  fitted: CalibratedCascade["tiers"][number] | undefined,
): TierProject["calibration"] | undefined {
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

const fourDigits = (value: number): number => Number(value.toFixed(4));

function withFigures(
  tiers: readonly TierProject[],
  { reliability }: CalibrationCurves,
): TierProject[] {
  return tiers.map((tier, position): TierProject => {
    const { before, after } = reliability[position] ?? {};
    if (before === undefined || after === undefined) return tier;
    const errors = {
      expectedCalibrationErrorBefore: fourDigits(before.expectedCalibrationError),
      expectedCalibrationError: fourDigits(after.expectedCalibrationError),
    };
    return { ...tier, figures: { ...tier.figures, ...errors } };
  });
}

function withLatency(tiers: readonly TierProject[], { tiers: asked }: AskedProject): TierProject[] {
  return tiers.map((tier, position): TierProject => ({
    ...tier,
    p95Ms: fourDigits(percentiles(asked[position]?.asked.ms ?? []).p95Ms),
  }));
}

/** The cascade's, on the tested samples. */
function figuresOf(
  { project, truth }: AskedProject,
  { tiers, thresholds, parts }: CalibratedCascade,
): Record<string, number> {
  const tested = tiers.map(({ id, answers, price }, position) => ({
    id,
    place: project.tiers[position]?.place ?? "edge",
    exit: thresholds[position] === undefined ? null : { confidence: thresholds[position] },
    answers: parts.test.flatMap((sample) => answers[sample] ?? []),
    msPerInput: price.meanMs,
  }));
  const ofTested = parts.test.map((sample) => truth[sample] ?? "");
  const { cascade } = cascadeFigures(tested, ofTested, oosLabelOf(project));
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
    Object.entries(figures).map(([name, value]) => [name, fourDigits(value)]),
  );
}

/** What model.json has beyond calibrations, exits, risk, figures and the report stays as it is written there. */
export async function writeCalibrated(
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
  await writeWhole(path, `${JSON.stringify(after, undefined, 2)}\n`);
}

/** The report alone, and its name in model.json. */
export async function writeReportAlone(folder: string, report: ModelReport): Promise<void> {
  await writeReport(folder, report);
  const path = join(folder, PROJECT_FILE);
  const before: object = JSON.parse(await readFile(path, "utf8"));
  await writeWhole(path, `${JSON.stringify({ ...before, report: REPORT_FILE }, undefined, 2)}\n`);
}

const writeReport = async (folder: string, report: ModelReport) =>
  await writeWhole(join(folder, REPORT_FILE), JSON.stringify(report));
