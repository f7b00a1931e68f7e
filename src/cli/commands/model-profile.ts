// `edgetier model profile <folder> --samples <path>`: profiles the time and memory of a project's tiers.

import { defineCommand } from "citty";
import { reasonOf } from "../../core/errors.ts";
import { getTask } from "../../tasks/tasks.ts";
import { readSamples } from "../../toolchain/evaluate/labeled-samples.ts";
import {
  type OperatorTime,
  profileNativeOperators,
  profileWasmOperators,
} from "../../toolchain/evaluate/profile/operator-profile.ts";
import {
  PHASES,
  profileNodePhases,
  profileWorkerdPhases,
  type PhaseProfile,
} from "../../toolchain/evaluate/profile/phase-profile.ts";
import {
  requireClassification,
  requireProjectFile,
  createTierPreprocessor,
} from "../../toolchain/evaluate/project-tier.ts";
import { readProject } from "../../toolchain/project.ts";
import { createProgressLine, withRunners } from "../evaluation-runners.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { parseCount, samplesArgs } from "./samples-args.ts";

const DEFAULT_SAMPLES = 200;
const OPERATOR_RUNS = 200;
const MAX_OPERATORS = 12;

interface TierProfile {
  readonly tier: string;
  readonly place: string;
  readonly runtimes: readonly PhaseProfile[];
  /** Runtimes that could not run the tier, with the reason. */
  readonly without: readonly { readonly runtime: string; readonly reason: string }[];
  /** Operator times by engine: onnxruntime-node, and for an edge tier also the Worker's onnxruntime-web. */
  readonly operators: Readonly<Record<string, readonly OperatorTime[]>>;
}

export const command = defineCommand({
  meta: {
    name: "profile",
    description:
      "Profile the time and memory of a project's tiers: phases in workerd and Node, and operators",
  },
  args: {
    folder: {
      type: "positional",
      description: "Folder with the model.json, for example models/intent",
      required: true,
    },
    ...samplesArgs,
    ...jsonArg,
  },
  async run({ args }) {
    const source = await readProject(args.folder);
    const project = requireClassification(source.project);
    const limit = parseCount("--limit", args.limit, "edgetier model profile") ?? DEFAULT_SAMPLES;
    const samples = await readSamples(args.samples, {
      task: getTask(project.task),
      limits: project.input,
      limit,
    });
    const progress = createProgressLine();
    const tiers: TierProfile[] = [];
    await withRunners(async ({ edge, region, engine }) => {
      for (const [position, tier] of project.tiers.entries()) {
        progress.show("tiers", position, project.tiers.length);
        const runtimes: PhaseProfile[] = [];
        const without: { runtime: string; reason: string }[] = [];
        const attempts = [
          () => profileWorkerdPhases(source, project, tier, samples, edge),
          () => profileNodePhases(source, project, tier, samples, region),
        ];
        for (const [index, attempt] of attempts.entries()) {
          // A region tier may exceed workerd's memory.
          await attempt().then(
            (profile) => runtimes.push(profile),
            (error: unknown) =>
              without.push({ runtime: index === 0 ? "workerd" : "node", reason: reasonOf(error) }),
          );
        }
        const preprocessor = createTierPreprocessor(source, project, tier);
        const inputs = samples.map(({ input }) => preprocessor.encode([input]));
        const graph = requireProjectFile(source, tier.graph);
        const operators = {
          ...(tier.place === "edge"
            ? {
                "onnxruntime-web": await profileWasmOperators(
                  await engine(),
                  graph,
                  inputs,
                  OPERATOR_RUNS,
                ),
              }
            : {}),
          "onnxruntime-node": await profileNativeOperators(graph, inputs, OPERATOR_RUNS),
        };
        tiers.push({ tier: tier.id, place: tier.place, runtimes, without, operators });
      }
    });
    progress.clear();
    if (args.json) return printJson({ model: project.model, samples: samples.length, tiers });
    printLine(tiers.map(summary).join("\n\n"));
  },
});

function summary({ tier, place, runtimes, without, operators }: TierProfile): string {
  const rows = runtimes.flatMap(({ runtime, phases, memoryBytes }) =>
    PHASES.map((phase, index) => {
      const { p50Ms, p95Ms, p99Ms } = phases[phase];
      return [
        runtime,
        phase,
        p50Ms.toFixed(3),
        p95Ms.toFixed(3),
        p99Ms.toFixed(3),
        index === 0 && memoryBytes !== undefined ? formatBytes(memoryBytes) : "",
      ];
    }),
  );
  return [
    `${tier} (${place})`,
    renderTable([["RUNTIME", "PHASE", "P50 MS", "P95 MS", "P99 MS", "MEMORY"], ...rows]),
    ...without.map(({ runtime, reason }) => `not in ${runtime}: ${reason}`),
    renderTable([
      ["ENGINE", "OPERATOR", "NODES", "MS A RUN", "SHARE"],
      ...Object.entries(operators).flatMap(([engine, times]) =>
        times
          .slice(0, MAX_OPERATORS)
          .map(({ operator, nodes, msPerRun, share }) => [
            engine,
            operator,
            nodes,
            msPerRun.toFixed(4),
            `${(100 * share).toFixed(1)} %`,
          ]),
      ),
    ]),
  ].join("\n");
}
