// `edgetier model build <folder>`: builds the files that a project is published with. With a build.json, these are the best
// candidates' graphs and their report. Snapshots of the edge tiers are always built.

import { join } from "node:path";
import { defineCommand } from "citty";
import type { ModelReport } from "../../protocol/model-report.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import { getTask } from "../../tasks/tasks.ts";
import {
  readProjectWithSources,
  writeBuiltProject,
} from "../../toolchain/build-plan/build-files.ts";
import { readBuildPlan } from "../../toolchain/build-plan/build-plan.ts";
import { buildProject, type BuiltProject } from "../../toolchain/build-plan/build-project.ts";
import { writeReportOnly } from "../../toolchain/calibrate/calibrate-project.ts";
import { readSamples, type LabeledSample } from "../../toolchain/evaluate/labeled-samples.ts";
import { requireClassification } from "../../toolchain/evaluate/project-tier.ts";
import { readProject } from "../../toolchain/project.ts";
import { createProjectSnapshots } from "../build-deployment.ts";
import { computeCurrentReport } from "../current-report.ts";
import { cliErrors } from "../errors.ts";
import { predictAllTiers, createProgressLine, withRunners } from "../evaluation-runners.ts";
import { formatBytes, jsonArg, printJson, printLine, printUsageWarning } from "../output.ts";
import { renderTechniquesTable } from "../techniques-table.ts";
import { parseRisk } from "./risk-args.ts";
import { parseCount, samplesArgs } from "./samples-args.ts";

const NAME = "edgetier model build";
const MAX_RANGE_SAMPLES = 256;

export const command = defineCommand({
  meta: {
    name: "build",
    description:
      "Build the graphs that build.json plans, evaluate them, and create the snapshots of the edge tiers",
  },
  args: {
    folder: {
      type: "positional",
      description: "Folder with the model.json, for example models/intent",
      required: true,
    },
    samples: {
      ...samplesArgs.samples,
      required: false,
      description: `${samplesArgs.samples.description}. Candidates are evaluated on them; required with a build.json`,
    },
    calibration: {
      type: "string",
      valueHint: "path",
      description:
        "Samples for quantization ranges, none of them in --samples; required with a build.json",
    },
    limit: samplesArgs.limit,
    rounds: { type: "string", valueHint: "n", description: "Number of timing rounds" },
    "dry-run": { type: "boolean", description: "Show the table and write no files" },
    ...jsonArg,
  },
  async run({ args }) {
    const log = args.json ? () => {} : printLine;
    const { built, samples = [] } = await buildTiers(args);
    let report: ModelReport | undefined;
    if (built !== undefined) {
      log(renderTechniquesTable(built.tiers));
      if (args["dry-run"] !== true) {
        await writeBuiltProject(args.folder, built);
        report = await writeReport(args.folder, samples);
        log(`The report to publish covers ${report.tested} samples`);
      }
    }
    if (args["dry-run"] === true) {
      if (args.json) printJson({ tiers: built?.tiers.map(toResult) ?? [] });
      return;
    }
    const { source, skippedTiers } = await createProjectSnapshots(
      await readProject(args.folder),
      log,
    );
    const snapshots = [...(source.snapshots ?? [])].map(([tier, { bytes, memoryBytes }]) => ({
      tier,
      bytes: bytes.byteLength,
      memoryBytes,
    }));
    if (args.json)
      return printJson({
        model: source.project.model,
        tiers: built?.tiers.map(toResult) ?? [],
        ...(report && { tested: report.tested }),
        snapshots,
        without: skippedTiers,
      });
    for (const { tier, bytes, memoryBytes } of snapshots)
      printLine(
        `snapshot of ${tier}: ${formatBytes(bytes)}, ${formatBytes(memoryBytes)} of memory`,
      );
    for (const { tier, reason } of skippedTiers) printLine(`${tier}: no snapshot. ${reason}`);
  },
});

interface BuildArgs {
  readonly folder: string;
  readonly samples?: string | undefined;
  readonly calibration?: string | undefined;
  readonly limit?: string | undefined;
  readonly rounds?: string | undefined;
  readonly json?: boolean | undefined;
}

/** Builds the tiers that build.json plans. Returns an empty object without a build.json. */
async function buildTiers({
  folder,
  samples,
  calibration,
  limit,
  rounds,
  json = false,
}: BuildArgs): Promise<{
  readonly built?: BuiltProject;
  readonly samples?: readonly LabeledSample[];
}> {
  const plan = await readBuildPlan(folder, (warning) => printUsageWarning(warning, json));
  if (plan === undefined) return {};
  if (samples === undefined || calibration === undefined)
    throw cliErrors.usage(
      `${join(folder, "build.json")} plans candidates, which need samples; pass --samples for their evaluation and --calibration for their ranges`,
      NAME,
    );
  const source = await readProjectWithSources(folder, plan);
  const project = requireClassification(source.project);
  const [maxSamples, roundCount] = [
    parseCount("--limit", limit, NAME),
    parseCount("--rounds", rounds, NAME),
  ];
  const options = { task: getTask(project.task), limits: project.input };
  const [evaluationSamples, rangeSamples] = [
    await readSamples(samples, { ...options, limit: maxSamples }),
    await readSamples(calibration, { ...options, limit: MAX_RANGE_SAMPLES }),
  ];
  const progress = createProgressLine();
  const built = await withRunners(({ edge, region }) =>
    buildProject(source, project, plan, {
      runners: { edge, region },
      runtime: createNativeRuntime(),
      evaluationSamples,
      rangeSamples,
      ...(roundCount === undefined ? {} : { rounds: roundCount }),
      onProgress: (tier, event) => {
        const activity =
          event.kind === "make"
            ? `${event.candidate}: ${event.activity}`
            : event.kind === "accuracy"
              ? `${event.candidate}: accuracy`
              : `latency in ${event.runtime}`;
        progress.show(`${tier}, ${activity}`, event.done, event.total);
      },
    }),
  );
  progress.clear();
  return { built, samples: evaluationSamples };
}

/** Writes the report of the current exits and calibrations, at the risk bound of model.json or the default one. */
async function writeReport(
  folder: string,
  samples: readonly LabeledSample[],
): Promise<ModelReport> {
  const source = await readProject(folder);
  const project = requireClassification(source.project);
  const report = computeCurrentReport(
    source,
    await predictAllTiers(source, project, samples),
    parseRisk({}, NAME, project.risk),
  );
  await writeReportOnly(folder, report);
  return report;
}

const toResult = ({ tier, evaluations, chosen }: BuiltProject["tiers"][number]) => ({
  tier,
  candidates: evaluations,
  chosen: chosen.name,
});
