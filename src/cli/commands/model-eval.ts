// `edgetier model eval <folder> --samples <path>`: measures accuracy, calibration, confusion, shares, cost and latency of a
// project's tiers and cascade, and checks its latency class. With --splits, it also checks a risk bound on random splits.

import { defineCommand } from "citty";
import type { RiskGuarantee } from "../../registry/manifest.ts";
import { getTask } from "../../tasks/tasks.ts";
import { calibrationMethodOf } from "../../toolchain/calibrate/fit-calibration.ts";
import {
  type RiskValidationSummary,
  type RiskValidation,
  validateRiskBound,
} from "../../toolchain/calibrate/validate-risk-bound.ts";
import {
  type ProjectRun,
  evaluateRun,
  type Evaluation,
  type CostModel,
  createCalibrationTiers,
} from "../../toolchain/evaluate/evaluate-project.ts";
import { readSamples } from "../../toolchain/evaluate/labeled-samples.ts";
import { requireClassification } from "../../toolchain/evaluate/project-tier.ts";
import { readProject } from "../../toolchain/project.ts";
import { cliErrors } from "../errors.ts";
import { predictAllTiers, createProgressLine } from "../evaluation-runners.ts";
import { jsonArg, printJson, printLine, renderTable, formatReduction } from "../output.ts";
import { priceArgs, parsePrices, parseRisk, riskArgs, type RiskOptions } from "./risk-args.ts";
import { parseCount, samplesArgs } from "./samples-args.ts";

const NAME = "edgetier model eval";
const MAX_CONFUSIONS = 10;

export const command = defineCommand({
  meta: {
    name: "eval",
    description:
      "Evaluate a project on labeled samples: edge tiers in workerd, region tiers in onnxruntime-node",
  },
  args: {
    folder: {
      type: "positional",
      description: "Folder with the model.json, for example models/intent",
      required: true,
    },
    ...samplesArgs,
    ...priceArgs,
    splits: {
      type: "string",
      valueHint: "200",
      description:
        "Number of random splits to calibrate on; reports in how many the risk bound held",
    },
    seed: { type: "string", valueHint: "n", description: "Seed of the splits" },
    ...riskArgs,
    ...jsonArg,
  },
  async run({ args }) {
    const source = await readProject(args.folder);
    const project = requireClassification(source.project);
    const [limit, splits, seed] = [
      parseCount("--limit", args.limit, NAME),
      parseCount("--splits", args.splits, NAME),
      parseCount("--seed", args.seed, NAME),
    ];
    const risk = parseRisk(args, NAME, project.risk);
    const prices = parsePrices(
      args,
      project.tiers.map(({ id }) => id),
      NAME,
    );
    const samples = await readSamples(args.samples, {
      task: getTask(project.task),
      limits: project.input,
      limit,
    });
    const progress = createProgressLine();
    const projectRun = await predictAllTiers(source, project, samples);
    const { answers: _answers, ...evaluation } = evaluateRun(projectRun, prices);
    const resamples =
      splits === undefined
        ? undefined
        : resampleSplits(projectRun, risk, {
            ...prices,
            splits,
            seed,
            onProgress: (done) => progress.show("splits", done, splits),
          });
    progress.clear();
    if (args.json)
      printJson({
        ...evaluation,
        risk: project.risk,
        ...(resamples === undefined ? {} : { resamples: { ...risk, ...resamples } }),
      });
    else
      printLine(
        [
          summary(evaluation),
          ...(project.risk === undefined ? [] : [describeStatedRisk(project.risk)]),
          ...(resamples === undefined ? [] : [summarizeSplits(risk, resamples)]),
        ].join("\n\n"),
      );
    if (evaluation.slo.kind === "missed")
      throw cliErrors.sloMissed(project.model, evaluation.slo.classMs, evaluation.slo.p99Ms);
  },
});

const percent = (share: number | undefined) =>
  share === undefined ? "-" : `${(100 * share).toFixed(2)} %`;
const ms = (value: number) => value.toFixed(2);

/** Calibrates each split with the project's own methods or a given one. Choosing a method in every split would take hours. */
function resampleSplits(
  projectRun: ProjectRun,
  { method, ...bound }: RiskOptions,
  {
    splits,
    seed,
    onProgress,
    ...prices
  }: CostModel & {
    readonly splits: number;
    readonly seed: number | undefined;
    readonly onProgress: (done: number) => void;
  },
): RiskValidation {
  const methods = projectRun.project.tiers.map(
    ({ calibration }) => method ?? calibrationMethodOf(calibration),
  );
  return validateRiskBound(createCalibrationTiers(projectRun, prices), projectRun, {
    ...bound,
    method: methods,
    deadlineMs: projectRun.project.deadlineMs,
    splits,
    ...(seed === undefined ? {} : { seed }),
    onProgress,
  });
}

function describeStatedRisk({
  what,
  epsilon,
  delta,
  samples,
  empiricalRisk,
}: RiskGuarantee): string {
  return `Risk (${what}) in model.json: at most ${percent(epsilon)} with a confidence of ${percent(1 - delta)}; ${percent(empiricalRisk)} on ${samples} test samples`;
}

function summarizeSplits(
  { what, epsilon, delta }: RiskOptions,
  { halves, draws }: RiskValidation,
): string {
  const row = (
    name: string,
    {
      splits,
      heldShare,
      unreached,
      meanRisk,
      p95Risk,
      largestRisk,
      meanEarlyShare,
      meanCostRatio,
    }: RiskValidationSummary,
  ) => [
    name,
    splits,
    percent(heldShare),
    unreached,
    percent(meanRisk),
    percent(p95Risk),
    percent(largestRisk),
    percent(meanEarlyShare),
    meanCostRatio.toFixed(2),
  ];
  return [
    `Risk (${what}) of at most ${percent(epsilon)}, which must hold in ${percent(1 - delta)} of the splits:`,
    renderTable([
      [
        "CALIBRATED ON, RISK ON",
        "SPLITS",
        "HELD",
        "NO EXIT",
        "MEAN RISK",
        "P95 RISK",
        "LARGEST",
        "BEFORE THE LAST",
        "COST RATIO",
      ],
      row("one half, the other half", halves),
      row("draws, all samples", draws),
    ]),
  ].join("\n");
}

function summary({
  samples,
  tiers,
  cascade,
  latency,
  cascadeLatency,
  slo,
  confusion,
}: Omit<Evaluation, "answers">): string {
  const rows = [
    ...tiers.map((tier) => ({ name: tier.id, ...tier, times: latency[tier.id] })),
    { name: "cascade", share: 1, ...cascade, times: cascadeLatency },
  ];
  const confused = confusion.pairs
    .filter(({ truth, answer }) => truth !== answer)
    .slice(0, MAX_CONFUSIONS);
  return [
    renderTable([
      [
        "TIER",
        "ANSWERS",
        "ACCURACY",
        "IN SCOPE",
        "OOS RECALL",
        "OOS PRECISION",
        "ECE",
        "P50 MS",
        "P95 MS",
        "P99 MS",
      ],
      ...rows.map(({ name, share, times, ...metrics }) => [
        name,
        percent(share),
        percent(metrics.accuracy),
        percent(metrics.inScopeAccuracy),
        percent(metrics.oosRecall),
        percent(metrics.oosPrecision),
        metrics.expectedCalibrationError.toFixed(4),
        ...(times === undefined ? [] : [ms(times.p50Ms), ms(times.p95Ms), ms(times.p99Ms)]),
      ]),
    ]),
    `${samples} samples; the edge answers ${percent(cascade.edgeShare)}. The cascade loses ${cascade.lossPoints.toFixed(2)} points of accuracy against its last tier alone`,
    `Against the last tier alone: ${formatReduction(cascade.costRatio)} cost, ${ms(cascade.meanMs)} ms on average instead of ${ms(cascade.lastTierMs)}. Calibration error without calibration: ${tiers.map(({ id, expectedCalibrationErrorBefore }) => `${id} ${(expectedCalibrationErrorBefore ?? 0).toFixed(4)}`).join(", ")}`,
    ...(confused.length === 0
      ? []
      : [
          `Most frequent confusions:\n${renderTable([["LABEL", "ANSWERED", "COUNT"], ...confused.map(({ truth, answer, count }) => [truth, answer, count])])}`,
        ]),
    slo.kind === "none"
      ? "No latency class; set sloMs in model.json to state one"
      : `Latency class ${slo.classMs} ms: ${slo.kind}, p99 ${ms(slo.p99Ms)} ms without the network to a region`,
  ].join("\n\n");
}
