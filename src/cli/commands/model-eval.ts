// `edgetier model eval <folder> --samples <path>`: accuracy, calibration, confusion, shares and latency of a project's tiers
// and of their cascade, and whether it holds its latency class.

import { defineCommand } from "citty";
import { type Evaluation, evaluateProject } from "../../build/judge/evaluate-project.ts";
import { classificationOf } from "../../build/judge/project-tier.ts";
import { readSamples } from "../../build/judge/samples.ts";
import { readProject } from "../../build/project.ts";
import { errors } from "../../core/errors.ts";
import { taskByName } from "../../tasks/tasks.ts";
import { createProgressLine, withRunners } from "../judging.ts";
import { jsonArg, printJson, printLine, table } from "../output.ts";
import { readCount, samplesArgs } from "./samples-args.ts";

const SHOWN_CONFUSIONS = 10;

export const command = defineCommand({
  meta: { name: "eval", description: "Evaluate a project on labelled samples: edge tiers in workerd, region tiers in onnxruntime-node" },
  args: {
    folder: { type: "positional", description: "Folder with the model.json, for example models/intent", required: true },
    ...samplesArgs,
    ...jsonArg,
  },
  async run({ args }) {
    const source = await readProject(args.folder);
    const project = classificationOf(source.project);
    const limit = readCount("--limit", args.limit, "edgetier model eval");
    const samples = await readSamples(args.samples, { task: taskByName(project.task), limits: project.input, limit });
    const progress = createProgressLine();
    const { answers: _answers, ...evaluation } = await withRunners(({ edge, region }) =>
      evaluateProject(source, project, samples, { runners: { edge, region }, onProgress: ({ tier, done, of }) => progress.show(tier, done, of) }),
    );
    progress.clear();
    if (args.json) printJson(evaluation);
    else printLine(summary(evaluation));
    if (evaluation.slo.kind === "missed") throw errors.sloMissed(project.model, evaluation.slo.classMs, evaluation.slo.p99Ms);
  },
});

const percent = (share: number | undefined) => (share === undefined ? "-" : `${(100 * share).toFixed(2)} %`);
const ms = (value: number) => value.toFixed(2);

function summary({ samples, tiers, cascade, latency, cascadeLatency, slo, confusion }: Omit<Evaluation, "answers">): string {
  const rows = [
    ...tiers.map((tier) => ({ name: tier.id, ...tier, times: latency[tier.id] })),
    { name: "cascade", share: 1, ...cascade, times: cascadeLatency },
  ];
  const confused = confusion.pairs.filter(({ truth, answer }) => truth !== answer).slice(0, SHOWN_CONFUSIONS);
  return [
    table([
      ["TIER", "ANSWERS", "ACCURACY", "IN SCOPE", "OOS RECALL", "OOS PRECISION", "ECE", "P50 MS", "P95 MS", "P99 MS"],
      ...rows.map(({ name, share, times, ...one }) => [
        name,
        percent(share),
        percent(one.accuracy),
        percent(one.inScopeAccuracy),
        percent(one.oosRecall),
        percent(one.oosPrecision),
        one.expectedCalibrationError.toFixed(4),
        ...(times === undefined ? [] : [ms(times.p50Ms), ms(times.p95Ms), ms(times.p99Ms)]),
      ]),
    ]),
    `${samples} samples; the edge answers ${percent(cascade.edgeShare)} of them, and the cascade loses ${cascade.lossPoints.toFixed(2)} points against its last tier alone`,
    ...(confused.length === 0 ? [] : [`Taken for another most often:\n${table([["LABEL", "ANSWERED", "TIMES"], ...confused.map(({ truth, answer, count }) => [truth, answer, count])])}`]),
    slo.kind === "none" ? "No latency class: sloMs in model.json promises one" : `Latency class ${slo.classMs} ms: ${slo.kind}, p99 ${ms(slo.p99Ms)} ms without the way to a region`,
  ].join("\n\n");
}
