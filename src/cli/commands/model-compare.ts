// `edgetier model compare <A> <B> --samples <path>`: evaluates two projects on the same samples and compares them.

import { defineCommand } from "citty";
import type { PublishSource } from "../../registry/publish.ts";
import { getTask } from "../../tasks/tasks.ts";
import {
  compareEvaluations,
  type EvaluationComparison,
} from "../../toolchain/evaluate/compare-evaluations.ts";
import { type Evaluation, evaluateProject } from "../../toolchain/evaluate/evaluate-project.ts";
import { readSamples } from "../../toolchain/evaluate/labeled-samples.ts";
import { requireClassification } from "../../toolchain/evaluate/project-tier.ts";
import { readProject } from "../../toolchain/project.ts";
import { cliErrors } from "../errors.ts";
import { createProgressLine, withRunners } from "../evaluation-runners.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { parseCount, samplesArgs } from "./samples-args.ts";

const NAME = "edgetier model compare";

export const command = defineCommand({
  meta: {
    name: "compare",
    description:
      "Compare two projects on the same labeled samples: accuracy, latency, bytes, and statistical significance",
  },
  args: {
    first: { type: "positional", description: "Folder of the current project", required: true },
    second: {
      type: "positional",
      description: "Folder of the changed project",
      required: true,
    },
    ...samplesArgs,
    ...jsonArg,
  },
  async run({ args }) {
    const sources = [await readProject(args.first), await readProject(args.second)] as const;
    const [first, second] = sources.map(({ project }) => requireClassification(project));
    if (first === undefined || second === undefined || first.task !== second.task)
      throw cliErrors.usage(
        `${args.first} and ${args.second} have different tasks; pass two projects of one task`,
        NAME,
      );
    const limit = parseCount("--limit", args.limit, NAME);
    const samples = await readSamples(args.samples, {
      task: getTask(first.task),
      limits: first.input,
      limit,
    });
    const progress = createProgressLine();
    const [firstEvaluation, secondEvaluation] = await withRunners(async ({ edge, region }) => {
      const evaluate = (source: PublishSource, name: string) =>
        evaluateProject(source, requireClassification(source.project), samples, {
          runners: { edge, region },
          onProgress: ({ tier, done, of }) => progress.show(`${name}, ${tier}`, done, of),
        });
      return [
        await evaluate(sources[0], args.first),
        await evaluate(sources[1], args.second),
      ] as const;
    });
    progress.clear();
    const comparison = compareEvaluations(
      firstEvaluation,
      secondEvaluation,
      samples.map(({ label }) => label),
    );
    const bytes = sources.map(sumFileBytes);
    if (args.json)
      return printJson({
        first: toMetrics(firstEvaluation, bytes[0]),
        second: toMetrics(secondEvaluation, bytes[1]),
        comparison,
      });
    printLine(
      summary(
        [
          [args.first, firstEvaluation, bytes[0] ?? 0],
          [args.second, secondEvaluation, bytes[1] ?? 0],
        ],
        comparison,
      ),
    );
  },
});

const sumFileBytes = ({ files }: PublishSource): number =>
  [...files.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);

function toMetrics(
  { answers: _answers, confusion: _confusion, ...figures }: Evaluation,
  bytes: number | undefined,
) {
  return { ...figures, bytes };
}

function summary(
  projects: readonly (readonly [name: string, evaluation: Evaluation, bytes: number])[],
  { samples, gainPoints, won, lost, pValue, agreement, p50Ratio, p99Ratio }: EvaluationComparison,
): string {
  const percent = (share: number) => `${(100 * share).toFixed(2)} %`;
  return [
    renderTable([
      ["PROJECT", "ACCURACY", "EDGE ANSWERS", "ECE", "P50 MS", "P99 MS", "BYTES"],
      ...projects.map(([name, { cascade, cascadeLatency }, bytes]) => [
        name,
        percent(cascade.accuracy),
        percent(cascade.edgeShare),
        cascade.expectedCalibrationError.toFixed(4),
        cascadeLatency.p50Ms.toFixed(2),
        cascadeLatency.p99Ms.toFixed(2),
        formatBytes(bytes),
      ]),
    ]),
    `The second is ${Math.abs(gainPoints).toFixed(2)} points ${gainPoints < 0 ? "worse" : "better"} on ${samples} samples: it wins ${won} and loses ${lost} (p = ${pValue.toPrecision(2)}, McNemar). The answers agree on ${percent(agreement)}.`,
    `Its latency is ${p50Ratio.toFixed(2)} times the first's at p50, and ${p99Ratio.toFixed(2)} times at p99.`,
  ].join("\n\n");
}
