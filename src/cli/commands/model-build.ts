// `edgetier model build <folder>`: makes what a project is published with. With a build.json, that is the tiers' graphs, of
// many candidates those that are worth it, and the report of what they do; and always the snapshots of its edge tiers.

import { cliErrors } from "../errors.ts";
import { join } from "node:path";
import { defineCommand } from "citty";
import { writeReportOnly } from "../../toolchain/calibrate/calibrate-project.ts";
import { requireClassification } from "../../toolchain/evaluate/project-tier.ts";
import { readSamples, type LabeledSample } from "../../toolchain/evaluate/labeled-samples.ts";
import { readProject } from "../../toolchain/project.ts";
import { readBuildPlan } from "../../toolchain/build-plan/build-plan.ts";
import { buildProject, type BuiltProject } from "../../toolchain/build-plan/build-project.ts";
import {
  readProjectWithSources,
  writeBuiltProject,
} from "../../toolchain/build-plan/build-files.ts";
import type { ModelReport } from "../../protocol/model-report.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import { getTask } from "../../tasks/tasks.ts";
import { computeCurrentReport } from "../current-report.ts";
import { createProjectSnapshots } from "../build-deployment.ts";
import { predictAllTiers, createProgressLine, withRunners } from "../evaluation-runners.ts";
import { formatBytes, jsonArg, printJson, printLine } from "../output.ts";
import { renderTechniquesTable } from "../techniques-table.ts";
import { parseRisk } from "./risk-args.ts";
import { parseCount, samplesArgs } from "./samples-args.ts";

const NAME = "edgetier model build";
const DEFAULT_CALIBRATION_SAMPLES = 256;

export const command = defineCommand({
  meta: {
    name: "build",
    description:
      "Make what a project is published with: the graphs that its build.json plans, judged, and the snapshots of its edge tiers",
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
      description: `${samplesArgs.samples.description}. What candidates are judged on; needed where there is a build.json`,
    },
    calibration: {
      type: "string",
      valueHint: "path",
      description:
        "Samples that ranges are found on, none of them among --samples; needed where there is a build.json",
    },
    limit: samplesArgs.limit,
    rounds: { type: "string", valueHint: "n", description: "Of the latency's measurement" },
    "dry-run": { type: "boolean", description: "Show the table, and write nothing" },
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
        log(`The report that is published with it is of ${report.tested} samples`);
      }
    }
    if (args["dry-run"] === true) {
      if (args.json) printJson({ tiers: built?.tiers.map(toResult) ?? [] });
      return;
    }
    const { source, skippedTiers: without } = await createProjectSnapshots(
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
        without,
      });
    for (const { tier, bytes, memoryBytes } of snapshots)
      printLine(
        `snapshot of ${tier}: ${formatBytes(bytes)}, ${formatBytes(memoryBytes)} of memory`,
      );
    for (const { tier, reason } of without) printLine(`${tier}: no snapshot. ${reason}`);
  },
});

interface BuildArgs {
  readonly folder: string;
  readonly samples?: string | undefined;
  readonly calibration?: string | undefined;
  readonly limit?: string | undefined;
  readonly rounds?: string | undefined;
}

/** @returns nothing where there is no build.json */
async function buildTiers({ folder, samples, calibration, limit, rounds }: BuildArgs): Promise<{
  readonly built?: BuiltProject;
  readonly samples?: readonly LabeledSample[];
}> {
  const plan = await readBuildPlan(folder, (warning) => process.stderr.write(`${warning}\n`));
  if (plan === undefined) return {};
  if (samples === undefined || calibration === undefined)
    throw cliErrors.usage(
      `${join(folder, "build.json")} plans candidates: name --samples to judge them on, and --calibration to find ranges on`,
      NAME,
    );
  const source = await readProjectWithSources(folder, plan);
  const project = requireClassification(source.project);
  const [most, roundCount] = [
    parseCount("--limit", limit, NAME),
    parseCount("--rounds", rounds, NAME),
  ];
  const options = { task: getTask(project.task), limits: project.input };
  const [questions, ranges] = [
    await readSamples(samples, { ...options, limit: most }),
    await readSamples(calibration, { ...options, limit: DEFAULT_CALIBRATION_SAMPLES }),
  ];
  const progress = createProgressLine();
  const built = await withRunners(({ edge, region }) =>
    buildProject(source, project, plan, {
      runners: { edge, region },
      runtime: createNativeRuntime(),
      evaluationSamples: questions,
      rangeSamples: ranges,
      ...(roundCount === undefined ? {} : { rounds: roundCount }),
      onProgress: (tier, event) => {
        const what =
          event.kind === "make"
            ? `${event.candidate}: ${event.activity}`
            : event.kind === "accuracy"
              ? `${event.candidate}: accuracy`
              : `latency in ${event.runtime}`;
        progress.show(`${tier}, ${what}`, event.done, event.total);
      },
    }),
  );
  progress.clear();
  return { built, samples: questions };
}

/** With the exits and calibrations that it has: the risk is shown at what model.json states, or at what is usual. */
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

const toResult = ({ tier, evaluations: judgements, chosen }: BuiltProject["tiers"][number]) => ({
  tier,
  candidates: judgements,
  chosen: chosen.name,
});
