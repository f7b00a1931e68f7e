// `edgetier model exits <folder>`: where a region tier's graph can be cut, and, cut there, an edge tier that answers what it
// is sure of and hands the rest on half done.

import { cliErrors } from "../errors.ts";
import { onnxErrors } from "../../toolchain/onnx/errors.ts";
import { defineCommand } from "citty";
import { type CutPoint, selectProposals } from "../../toolchain/early-exit/find-cuts.ts";
import {
  DEFAULT_HEAD_TRAINING,
  type TrainingTarget,
  TRAINING_TARGETS,
} from "../../toolchain/early-exit/train-heads.ts";
import {
  selectBestCut,
  findTierCuts,
  type CreatedExits,
  type EvaluatedCut,
  createExits,
  selectTierToCut,
  addExitTier,
} from "../../toolchain/early-exit/create-exits.ts";
import { writeExitTier } from "../../toolchain/early-exit/write-exit-tier.ts";
import {
  requireClassification,
  readProjectLabels,
  type ProjectTier,
} from "../../toolchain/evaluate/project-tier.ts";
import { readSamples, type LabeledSample } from "../../toolchain/evaluate/labeled-samples.ts";
import { readProject } from "../../toolchain/project.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import { getTask } from "../../tasks/tasks.ts";
import { createProgressLine, withRunners } from "../evaluation-runners.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { parseCount, samplesArgs } from "./samples-args.ts";

const NAME = "edgetier model exits";

export const command = defineCommand({
  meta: {
    name: "exits",
    description:
      "Cut a region tier's graph, train an exit head at the cut, and put the first part at the edge; the region goes on from there",
  },
  args: {
    folder: {
      type: "positional",
      description: "Folder with the model.json, for example models/vision",
      required: true,
    },
    tier: {
      type: "string",
      valueHint: "id",
      description: "The region tier whose graph is cut; the last by default",
    },
    propose: {
      type: "boolean",
      description: "Show where the graph can be cut, and change nothing",
    },
    at: {
      type: "string",
      valueHint: "value,…",
      description: "Where to cut; of several cuts, the one with the least work a request is taken",
    },
    id: {
      type: "string",
      default: "edge-exit",
      valueHint: "id",
      description: "Of the edge tier that is made, or made again",
    },
    samples: {
      ...samplesArgs.samples,
      required: false,
      description: `${samplesArgs.samples.description}. What exits are judged and calibrated on`,
    },
    calibration: {
      type: "string",
      valueHint: "path",
      description: "Samples that heads are trained on, none of them among --samples",
    },
    limit: samplesArgs.limit,
    "max-calibration": {
      type: "string",
      default: "20000",
      valueHint: "n",
      description: "At most so many samples to train on",
    },
    targets: {
      type: "enum",
      options: [...TRAINING_TARGETS],
      description:
        "What heads learn: the labels, the whole graph's softened answers, or both; by default labels where all samples have one that the model knows, and answers otherwise",
    },
    temperature: {
      type: "string",
      default: String(DEFAULT_HEAD_TRAINING.temperature),
      valueHint: "t",
      description: "That softens those answers",
    },
    grid: {
      type: "string",
      default: String(DEFAULT_HEAD_TRAINING.grid),
      valueHint: "n",
      description:
        "Heads read the means over n x n parts of an image; 1 for the mean over all of it",
    },
    hidden: {
      type: "string",
      default: String(DEFAULT_HEAD_TRAINING.hidden),
      valueHint: "n",
      description: "Units of the heads' hidden layer; 0 for none",
    },
    epochs: {
      type: "string",
      default: String(DEFAULT_HEAD_TRAINING.epochs),
      valueHint: "n",
      description: "Of training",
    },
    seed: {
      type: "string",
      default: String(DEFAULT_HEAD_TRAINING.seed),
      valueHint: "n",
      description: "Of training: the same gives the same heads",
    },
    "max-loss": {
      type: "string",
      default: "0.2",
      valueHint: "points",
      description:
        "Points of accuracy that exits may cost on --samples; `edgetier model calibrate` states a risk instead",
    },
    "dry-run": { type: "boolean", description: "Show the table, and write nothing" },
    ...jsonArg,
  },
  async run({ args }) {
    if (args.propose !== true && args.at === undefined)
      throw cliErrors.usage("Say where to cut with --at, or ask with --propose", NAME);
    const source = await readProject(args.folder);
    const project = requireClassification(source.project);
    const tier = selectTierToCut(project, args.tier);
    const options = { task: getTask(project.task), limits: project.input };
    const samples =
      args.samples === undefined
        ? []
        : await readSamples(args.samples, {
            ...options,
            limit: parseCount("--limit", args.limit, NAME),
          });
    const runtime = createNativeRuntime();
    const cuts = await findTierCuts(source, project, tier, runtime, samples);
    if (args.propose === true) {
      const proposed = selectProposals(cuts);
      if (args.json) return printJson({ model: project.model, tier: tier.id, cuts: proposed });
      return printLine(
        proposed.length === 0
          ? `${tier.id}: the graph narrows to one value nowhere`
          : proposalTable(proposed),
      );
    }

    if (samples.length === 0 || args.calibration === undefined)
      throw cliErrors.usage(
        "Name --samples to judge exits on, and --calibration to train heads on",
        NAME,
      );
    const calibration = await readSamples(args.calibration, {
      ...options,
      limit: parseCount("--max-calibration", args["max-calibration"], NAME),
    });
    const learning = {
      targets: args.targets ?? defaultTargets(calibration, readProjectLabels(source, project)),
      seed: readNumber("--seed", args.seed, 0),
      epochs: readNumber("--epochs", args.epochs, 1),
      grid: parseCount("--grid", args.grid, NAME) ?? 1,
      hidden: readNumber("--hidden", args.hidden, 0),
      temperature: readNumber("--temperature", args.temperature, 0.1),
    };
    const places = findCutPoints(args.at ?? "", cuts);
    const progress = createProgressLine();
    const made = await withRunners(({ edge, region }) =>
      createExits(source, project, tier, places, {
        runners: { edge, region },
        runtime,
        trainingSamples: calibration,
        evaluationSamples: samples,
        training: learning,
        maxLossPoints: readNumber("--max-loss", args["max-loss"], 0),
        onProgress: progress.show,
      }),
    );
    progress.clear();
    await writeAndPrintExit(args, project, tier, made);
  },
});

interface ExitOutputArgs {
  readonly folder: string;
  readonly id: string;
  readonly json?: boolean | undefined;
  readonly "dry-run"?: boolean | undefined;
}

async function writeAndPrintExit(
  { folder, id, json, "dry-run": isDry }: ExitOutputArgs,
  project: ClassificationProject,
  tier: ProjectTier,
  { cuts, inputBytes }: CreatedExits,
): Promise<void> {
  const taken = selectBestCut(cuts);
  if (taken === undefined) return;
  if (isDry !== true) await writeExitTier(folder, addExitTier(project, tier, taken, id), id);
  if (json === true)
    return printJson({
      model: project.model,
      tier: tier.id,
      inputBytes,
      cuts: cuts.map(toResult),
      taken: taken.value,
    });
  printLine(evaluatedTable(cuts, taken));
  printLine(
    `An input has ${Math.round(inputBytes)} bytes on average; the whole graph is right in ${percent(taken.judgement.wholeAccuracy)}.`,
  );
  if (
    tier.calibration.outOfScope !== undefined &&
    taken.judgement.calibration.outOfScope === undefined
  )
    printLine(
      `No sample is out of scope, so that ${id} cannot tell what is: it answers what ${tier.id} would not.`,
    );
  if (taken.work >= 1)
    printLine(
      "No cut saves work: so little exits that the first stage costs more than it spares. A deeper cut, or a distilled tier (`edgetier model distil`), may do better.",
    );
  if (isDry !== true) printLine(`${id} goes on in ${tier.id}.`);
}

function toResult({ graphs: _graphs, judgement, ...cut }: EvaluatedCut) {
  const { confidence, coverage, lossPoints } = judgement.exit;
  return {
    ...cut,
    judgement: { ...judgement, exit: { confidence, share: coverage, lossPoints } },
  };
}

/** @throws usage */
function findCutPoints(at: string, cuts: readonly CutPoint[]): CutPoint[] {
  return [...new Set(at.split(",").map((name) => name.trim()))].map((name) => {
    const place = cuts.find(({ value }) => value === name);
    if (place === undefined)
      throw onnxErrors.notCuttable(
        name,
        `it is none of the ${cuts.length} values that the graph narrows to`,
      );
    return place;
  });
}

const defaultTargets = (
  samples: readonly LabeledSample[],
  labels: readonly string[],
): TrainingTarget => (samples.every(({ label }) => labels.includes(label)) ? "labels" : "answers");

/** @throws usage */
function readNumber(option: string, value: string, least: number): number {
  const number = Number(value);
  if (value.trim() === "" || !Number.isFinite(number) || number < least)
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(value)}, and must be a number from ${least} on`,
      NAME,
    );
  return number;
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
const cutCells = ({ value, share, shape, bytesPerRow }: CutPoint): string[] => [
  value,
  percent(share),
  `[${shape.join(", ")}]`,
  formatBytes(bytesPerRow),
];

function proposalTable(cuts: readonly CutPoint[]): string {
  return renderTable([
    ["VALUE", "COMPUTED BEFORE", "SHAPE", "IN 8 BITS", "NEEDED BESIDES"],
    ...cuts.map((cut) => [...cutCells(cut), cut.besides.join(", ")]),
  ]);
}

function evaluatedTable(cuts: readonly EvaluatedCut[], taken: EvaluatedCut): string {
  const header = [
    "VALUE",
    "COMPUTED BEFORE",
    "SHAPE",
    "IN 8 BITS",
    "HEAD",
    "EXITS",
    "FROM",
    "LOSS",
    "EDGE P50 MS",
    "8 BITS AGREE",
    "FP32 DIFFERS",
    "SENDS",
    "WORK",
    "",
  ];
  return renderTable([
    header,
    ...cuts.map((cut) => {
      const { accuracy, exit, p50Ms, resumed, exact } = cut.judgement;
      return [
        ...cutCells(cut),
        percent(accuracy),
        percent(exit.coverage),
        exit.confidence.toFixed(3),
        exit.lossPoints.toFixed(2),
        p50Ms.toFixed(2),
        percent(resumed.agreement),
        exact.largestDifference.toExponential(1),
        cut.sends,
        cut.work.toFixed(2),
        cut === taken ? "taken" : "",
      ];
    }),
  ]);
}
