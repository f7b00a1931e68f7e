// `edgetier model exits <folder>`: cuts a region tier's graph and trains an early exit at the cut. The new edge tier answers
// confident inputs and sends the activations of the others to the region tier. Above 300 lines because of its 16 options.

import { defineCommand } from "citty";
import type { ClassificationProject } from "../../registry/manifest.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import { getTask } from "../../tasks/tasks.ts";
import { addExitTier } from "../../toolchain/early-exit/add-exit-tier.ts";
import {
  selectBestCut,
  findTierCuts,
  type CreatedExits,
  type EvaluatedCut,
  createExits,
  selectTierToCut,
} from "../../toolchain/early-exit/create-exits.ts";
import { type CutPoint, selectProposals } from "../../toolchain/early-exit/find-cuts.ts";
import {
  DEFAULT_HEAD_TRAINING,
  type TrainingTarget,
  TRAINING_TARGETS,
} from "../../toolchain/early-exit/train-heads.ts";
import { writeExitTier } from "../../toolchain/early-exit/write-exit-tier.ts";
import { readSamples, type LabeledSample } from "../../toolchain/evaluate/labeled-samples.ts";
import {
  requireClassification,
  readProjectLabels,
  type ProjectTier,
} from "../../toolchain/evaluate/project-tier.ts";
import { onnxErrors } from "../../toolchain/onnx/errors.ts";
import { readProject } from "../../toolchain/project.ts";
import { cliErrors } from "../errors.ts";
import { createProgressLine, withRunners } from "../evaluation-runners.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { parseCount, samplesArgs } from "./samples-args.ts";

const NAME = "edgetier model exits";

export const command = defineCommand({
  meta: {
    name: "exits",
    description:
      "Cut a region tier's graph, train an exit head at the cut, and run the first part at the edge; the region resumes there",
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
      description: "Region tier whose graph is cut; by default the last",
    },
    propose: {
      type: "boolean",
      description: "List the possible cuts and change nothing",
    },
    at: {
      type: "string",
      valueHint: "value,…",
      description:
        "Comma-separated cuts to try; the one with the least work per request is selected",
    },
    id: {
      type: "string",
      default: "edge-exit",
      valueHint: "id",
      description: "Id of the edge tier to create or replace",
    },
    samples: {
      ...samplesArgs.samples,
      required: false,
      description: `${samplesArgs.samples.description}. Exits are evaluated and calibrated on them`,
    },
    calibration: {
      type: "string",
      valueHint: "path",
      description: "Samples for training the heads, none of them in --samples",
    },
    limit: samplesArgs.limit,
    "max-calibration": {
      type: "string",
      default: "20000",
      valueHint: "n",
      description: "Maximum number of training samples",
    },
    targets: {
      type: "enum",
      options: [...TRAINING_TARGETS],
      description:
        "Training targets: labels, the full graph's softened answers, or both; by default labels if the model knows the label of every sample",
    },
    temperature: {
      type: "string",
      default: String(DEFAULT_HEAD_TRAINING.temperature),
      valueHint: "t",
      description: "Temperature that softens the answers",
    },
    grid: {
      type: "string",
      default: String(DEFAULT_HEAD_TRAINING.grid),
      valueHint: "n",
      description:
        "Heads read means over n x n parts of an image; 1 reads the mean over the whole image",
    },
    hidden: {
      type: "string",
      default: String(DEFAULT_HEAD_TRAINING.hidden),
      valueHint: "n",
      description: "Units of the heads' hidden layer; 0 omits it",
    },
    epochs: {
      type: "string",
      default: String(DEFAULT_HEAD_TRAINING.epochs),
      valueHint: "n",
      description: "Number of training epochs",
    },
    seed: {
      type: "string",
      default: String(DEFAULT_HEAD_TRAINING.seed),
      valueHint: "n",
      description: "Seed of the training; equal seeds give equal heads",
    },
    "max-loss": {
      type: "string",
      default: "0.2",
      valueHint: "points",
      description:
        "Maximum accuracy loss of exits on --samples, in points; use `edgetier model calibrate` for a risk bound",
    },
    "dry-run": { type: "boolean", description: "Show the table and write no files" },
    ...jsonArg,
  },
  async run({ args }) {
    if (args.propose !== true && args.at === undefined)
      throw cliErrors.usage("The cut is missing; pass --at, or list the cuts with --propose", NAME);
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
          ? `${tier.id}: the graph has no cut, because it never narrows to one value`
          : proposalTable(proposed),
      );
    }

    if (samples.length === 0 || args.calibration === undefined)
      throw cliErrors.usage(
        "Samples are missing; pass --samples for the evaluation and --calibration for the training",
        NAME,
      );
    const trainingSamples = await readSamples(args.calibration, {
      ...options,
      limit: parseCount("--max-calibration", args["max-calibration"], NAME),
    });
    const training = {
      targets:
        args.targets ?? selectDefaultTarget(trainingSamples, readProjectLabels(source, project)),
      seed: readNumber("--seed", args.seed, 0),
      epochs: readNumber("--epochs", args.epochs, 1),
      grid: parseCount("--grid", args.grid, NAME) ?? 1,
      hidden: readNumber("--hidden", args.hidden, 0),
      temperature: readNumber("--temperature", args.temperature, 0.1),
    };
    const cutPoints = findCutPoints(args.at ?? "", cuts);
    const progress = createProgressLine();
    const created = await withRunners(({ edge, region }) =>
      createExits(source, project, tier, cutPoints, {
        runners: { edge, region },
        runtime,
        trainingSamples,
        evaluationSamples: samples,
        training,
        maxLossPoints: readNumber("--max-loss", args["max-loss"], 0),
        onProgress: progress.show,
      }),
    );
    progress.clear();
    await writeAndPrintExit(args, project, tier, created);
  },
});

interface ExitOutputArgs {
  readonly folder: string;
  readonly id: string;
  readonly json?: boolean | undefined;
  readonly "dry-run"?: boolean | undefined;
}

async function writeAndPrintExit(
  { folder, id, json, "dry-run": isDryRun }: ExitOutputArgs,
  project: ClassificationProject,
  tier: ProjectTier,
  { cuts, inputBytes }: CreatedExits,
): Promise<void> {
  const selected = selectBestCut(cuts);
  if (selected === undefined) return;
  if (isDryRun !== true) await writeExitTier(folder, addExitTier(project, tier, selected, id), id);
  if (json === true)
    return printJson({
      model: project.model,
      tier: tier.id,
      inputBytes,
      cuts: cuts.map(toResult),
      taken: selected.value,
    });
  printLine(evaluatedTable(cuts, selected));
  printLine(
    `An input has ${Math.round(inputBytes)} bytes on average. The full graph's accuracy is ${percent(selected.judgement.wholeAccuracy)}.`,
  );
  if (
    tier.calibration.outOfScope !== undefined &&
    selected.judgement.calibration.outOfScope === undefined
  )
    printLine(
      `No sample is out of scope, so ${id} has no out-of-scope rule and answers inputs that ${tier.id} would not.`,
    );
  if (selected.work >= 1)
    printLine(
      "No cut saves work: too few inputs exit to repay the first stage. Try a deeper cut, or a distilled tier (`edgetier model distill`).",
    );
  if (isDryRun !== true) printLine(`${id} resumes in ${tier.id}.`);
}

function toResult({ graphs: _graphs, judgement, ...cut }: EvaluatedCut) {
  const { confidence, coverage, lossPoints } = judgement.exit;
  return {
    ...cut,
    judgement: { ...judgement, exit: { confidence, share: coverage, lossPoints } },
  };
}

/** Finds the cuts that `--at` names. @throws not_cuttable */
function findCutPoints(at: string, cuts: readonly CutPoint[]): CutPoint[] {
  return [...new Set(at.split(",").map((name) => name.trim()))].map((name) => {
    const cut = cuts.find(({ value }) => value === name);
    if (cut === undefined)
      throw onnxErrors.notCuttable(name, `it is not one of the graph's ${cuts.length} cuts`);
    return cut;
  });
}

const selectDefaultTarget = (
  samples: readonly LabeledSample[],
  labels: readonly string[],
): TrainingTarget => (samples.every(({ label }) => labels.includes(label)) ? "labels" : "answers");

/** @throws usage */
function readNumber(option: string, value: string, min: number): number {
  const number = Number(value);
  if (value.trim() === "" || !Number.isFinite(number) || number < min)
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(value)}; expected a number of at least ${min}`,
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
    ["VALUE", "COMPUTED BEFORE", "SHAPE", "IN 8 BITS", "EXTRA INPUTS"],
    ...cuts.map((cut) => [...cutCells(cut), cut.besides.join(", ")]),
  ]);
}

function evaluatedTable(cuts: readonly EvaluatedCut[], selected: EvaluatedCut): string {
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
        cut === selected ? "selected" : "",
      ];
    }),
  ]);
}
