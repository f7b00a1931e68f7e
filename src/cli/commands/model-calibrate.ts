// `edgetier model calibrate <folder> --samples <path> --epsilon <share>`: calibrates the tiers' confidences, chooses exits for
// a risk bound, and writes both into model.json.

import { writeFile } from "node:fs/promises";
import { defineCommand } from "citty";
import { getTask } from "../../tasks/tasks.ts";
import {
  type CalibratedProject,
  calibrateProject,
  writeCalibratedProject,
  writeReportOnly,
} from "../../toolchain/calibrate/calibrate-project.ts";
import { buildModelReport } from "../../toolchain/calibrate/model-report.ts";
import { readSamples } from "../../toolchain/evaluate/labeled-samples.ts";
import {
  requireClassification,
  requireProjectFile,
} from "../../toolchain/evaluate/project-tier.ts";
import { readProject } from "../../toolchain/project.ts";
import { renderCalibrationReport } from "../../toolchain/report/calibration-report.ts";
import { computeCurrentReport } from "../current-report.ts";
import { predictAllTiers } from "../evaluation-runners.ts";
import { jsonArg, printJson, printLine, renderTable, formatReduction } from "../output.ts";
import { priceArgs, parsePrices, parseRisk, parseSaturatedEpsilon, riskArgs } from "./risk-args.ts";
import { parseCount, samplesArgs } from "./samples-args.ts";

const NAME = "edgetier model calibrate";

export const command = defineCommand({
  meta: {
    name: "calibrate",
    description:
      "Calibrate a project's confidences and choose its exits, so that the risk is at most epsilon with confidence 1 - delta",
  },
  args: {
    folder: {
      type: "positional",
      description: "Folder with the model.json, for example models/intent",
      required: true,
    },
    ...samplesArgs,
    samples: {
      ...samplesArgs.samples,
      description: `${samplesArgs.samples.description}; none from the tiers' training data`,
    },
    ...riskArgs,
    ...priceArgs,
    "saturated-epsilon": {
      type: "string",
      valueHint: "0.02",
      description:
        "Risk allowed while a region is saturated, at the same delta; by default the one in model.json",
    },
    seed: {
      type: "string",
      valueHint: "n",
      description: "Seed of the split into fit and test samples",
    },
    "allow-last-tier-only": {
      type: "boolean",
      description: "Send every input to the last tier if no exit meets the risk bound",
    },
    "report-only": {
      type: "boolean",
      description: "Keep calibrations and exits, and write only the report to publish",
    },
    report: {
      type: "string",
      valueHint: "file.html",
      description: "Write the curves as an HTML page",
    },
    "dry-run": { type: "boolean", description: "Do not change model.json" },
    ...jsonArg,
  },
  async run({ args }) {
    const source = await readProject(args.folder);
    const project = requireClassification(source.project);
    const { method, ...bound } = parseRisk(args, NAME, project.risk);
    const saturatedEpsilon =
      parseSaturatedEpsilon(args["saturated-epsilon"], bound.epsilon, NAME) ??
      project.tiers[0]?.exit?.whenSaturated?.epsilon;
    const prices = parsePrices(
      args,
      project.tiers.map(({ id }) => id),
      NAME,
    );
    const [limit, seed] = [
      parseCount("--limit", args.limit, NAME),
      parseCount("--seed", args.seed, NAME),
    ];
    const samples = await readSamples(args.samples, {
      task: getTask(project.task),
      limits: project.input,
      limit,
    });
    const projectRun = await predictAllTiers(source, project, samples);
    if (args["report-only"] === true) {
      const report = computeCurrentReport(source, projectRun, { ...bound, ...prices, seed });
      if (args["dry-run"] !== true) await writeReportOnly(args.folder, report);
      return args.json
        ? printJson(report)
        : printLine(
            `Report of ${project.model} on ${report.tested} samples${args["dry-run"] === true ? "" : " written and named in model.json"}`,
          );
    }
    const calibrated = calibrateProject(projectRun, {
      ...bound,
      ...prices,
      method,
      saturatedEpsilon,
      allowLastTierOnly: args["allow-last-tier-only"] === true,
      ...(seed === undefined ? {} : { seed }),
    });
    if (args.report !== undefined)
      await writeFile(args.report, renderCalibrationReport(toReport(calibrated)));
    if (args["dry-run"] !== true)
      await writeCalibratedProject(
        args.folder,
        calibrated.project,
        buildModelReport(calibrated.project, calibrated.curves, (path) =>
          requireProjectFile(source, path),
        ),
      );
    if (args.json) printJson(toResult(calibrated));
    else printLine(summary(calibrated));
  },
});

function toReport({ project, cascade, curves }: CalibratedProject) {
  const tiers = cascade.tiers.map(({ id, method }, position) => ({
    id,
    method,
    exit: cascade.thresholds[position],
  }));
  return { model: project.model, risk: project.risk, tiers, curves };
}

function toResult({ project, cascade, curves }: CalibratedProject) {
  const { fit, test } = cascade.split;
  return {
    model: project.model,
    risk: project.risk,
    fitted: fit.length,
    tested: test.length,
    pValue: cascade.riskControl.chosen?.pValue,
    tiers: project.tiers.map(({ id, calibration, exit, p95Ms, figures }, position) => ({
      id,
      method: cascade.tiers[position]?.method,
      trials: cascade.tiers[position]?.trials,
      calibration,
      exit,
      p95Ms,
      figures,
    })),
    figures: project.figures,
    curves,
  };
}

const percent = (share: number | undefined) =>
  share === undefined ? "-" : `${(100 * share).toFixed(2)} %`;

function summary({ project, cascade, curves }: CalibratedProject): string {
  const { chosen, reliability, alone } = curves;
  const trials = cascade.tiers.flatMap(({ id, trials }) =>
    trials.map(({ method, nll, expectedCalibrationError }) => [
      id,
      method,
      nll.toFixed(4),
      expectedCalibrationError.toFixed(4),
    ]),
  );
  const last = alone.at(-1);
  return [
    renderTable([
      ["TIER", "METHOD", "EXIT", "WHEN SATURATED", "ECE BEFORE", "ECE AFTER"],
      ...cascade.tiers.map(({ id, method }, position) => [
        id,
        method,
        cascade.thresholds[position] ?? "answers all",
        cascade.whenSaturated?.thresholds[position] ?? "-",
        reliability[position]?.before.expectedCalibrationError.toFixed(4) ?? "-",
        reliability[position]?.after.expectedCalibrationError.toFixed(4) ?? "-",
      ]),
    ]),
    ...(trials.length === 0
      ? []
      : [`Cross-validation:\n${renderTable([["TIER", "METHOD", "NLL", "ECE"], ...trials])}`]),
    `Fitted on ${cascade.split.fit.length} samples, tested on ${cascade.split.test.length} others`,
    ...(project.risk === undefined || chosen === undefined || last === undefined
      ? []
      : [
          `Risk (${project.risk.what}): at most ${percent(project.risk.epsilon)} with a confidence of ${percent(1 - project.risk.delta)}; ${percent(chosen.risk)} on the test samples`,
          `Cascade against the last tier alone: ${percent(chosen.coverage)} answered before the last tier, ${chosen.meanMs.toFixed(2)} ms on average against ${last.meanMs.toFixed(2)} ms, ${formatReduction(last.meanCost / chosen.meanCost)} cost, ${percent(chosen.accuracy)} accuracy against ${percent(last.accuracy)}`,
        ]),
  ].join("\n\n");
}
