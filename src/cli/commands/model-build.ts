// `edgetier model build <folder>`: makes what a project is published with. With a build.json, that is the tiers' graphs, of
// many candidates those that are worth it, and the report of what they do; and always the snapshots of its edge tiers.

import { cliErrors } from "../errors.ts";
import { join } from "node:path";
import { defineCommand } from "citty";
import { writeReportAlone } from "../../toolchain/calibrate/calibrate-project.ts";
import { classificationOf } from "../../toolchain/judge/project-tier.ts";
import { readSamples, type Sample } from "../../toolchain/judge/samples.ts";
import { readProject } from "../../toolchain/project.ts";
import { readBuildPlan } from "../../toolchain/techniques/build-plan.ts";
import { buildProject, type BuiltProject } from "../../toolchain/techniques/build-project.ts";
import { projectWithSources, writeBuilt } from "../../toolchain/techniques/project-files.ts";
import type { ModelReport } from "../../protocol/report.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import { taskByName } from "../../tasks/tasks.ts";
import { asIsReport } from "../as-is-report.ts";
import { makeProjectSnapshots } from "../deployment.ts";
import { askAllTiers, createProgressLine, withRunners } from "../judging.ts";
import { inKiB, jsonArg, printJson, printLine } from "../output.ts";
import { techniquesTable } from "../techniques-table.ts";
import { readRisk } from "./risk-args.ts";
import { readCount, samplesArgs } from "./samples-args.ts";

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
      log(techniquesTable(built.tiers));
      if (args["dry-run"] !== true) {
        await writeBuilt(args.folder, built);
        report = await writeReport(args.folder, samples);
        log(`The report that is published with it is of ${report.tested} samples`);
      }
    }
    if (args["dry-run"] === true) {
      if (args.json) printJson({ tiers: built?.tiers.map(resultOf) ?? [] });
      return;
    }
    const { source, without } = await makeProjectSnapshots(await readProject(args.folder), log);
    const snapshots = [...(source.snapshots ?? [])].map(([tier, { bytes, memoryBytes }]) => ({
      tier,
      bytes: bytes.byteLength,
      memoryBytes,
    }));
    if (args.json)
      return printJson({
        model: source.project.model,
        tiers: built?.tiers.map(resultOf) ?? [],
        ...(report && { tested: report.tested }),
        snapshots,
        without,
      });
    for (const { tier, bytes, memoryBytes } of snapshots)
      printLine(`snapshot of ${tier}: ${inKiB(bytes)}, ${inKiB(memoryBytes)} of memory`);
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
async function buildTiers({
  folder,
  samples,
  calibration,
  limit,
  rounds,
}: BuildArgs): Promise<{ readonly built?: BuiltProject; readonly samples?: readonly Sample[] }> {
  const plan = await readBuildPlan(folder);
  if (plan === undefined) return {};
  if (samples === undefined || calibration === undefined)
    throw cliErrors.usage(
      `${join(folder, "build.json")} plans candidates: name --samples to judge them on, and --calibration to find ranges on`,
      NAME,
    );
  const source = await projectWithSources(folder, plan);
  const project = classificationOf(source.project);
  const [most, roundCount] = [
    readCount("--limit", limit, NAME),
    readCount("--rounds", rounds, NAME),
  ];
  const options = { task: taskByName(project.task), limits: project.input };
  const [questions, ranges] = [
    await readSamples(samples, { ...options, limit: most }),
    await readSamples(calibration, { ...options, limit: DEFAULT_CALIBRATION_SAMPLES }),
  ];
  const progress = createProgressLine();
  const built = await withRunners(({ edge, region }) =>
    buildProject(source, project, plan, {
      runners: { edge, region },
      runtime: createNativeRuntime(),
      samples: questions,
      calibration: ranges,
      ...(roundCount === undefined ? {} : { rounds: roundCount }),
      onProgress: (tier, event) => {
        const what =
          event.step === "make"
            ? `${event.candidate}: ${event.what}`
            : event.step === "accuracy"
              ? `${event.candidate}: accuracy`
              : `latency in ${event.runtime}`;
        progress.show(`${tier}, ${what}`, event.done, event.of);
      },
    }),
  );
  progress.clear();
  return { built, samples: questions };
}

/** With the exits and calibrations that it has: the risk is shown at what model.json states, or at what is usual. */
async function writeReport(folder: string, samples: readonly Sample[]): Promise<ModelReport> {
  const source = await readProject(folder);
  const project = classificationOf(source.project);
  const report = asIsReport(
    source,
    await askAllTiers(source, project, samples),
    readRisk({}, NAME, project.risk),
  );
  await writeReportAlone(folder, report);
  return report;
}

const resultOf = ({ tier, judgements, chosen }: BuiltProject["tiers"][number]) => ({
  tier,
  candidates: judgements,
  chosen: chosen.name,
});
