// `edgetier model distill <folder> --teacher <tier> --samples <path> --student text-ngrams --out <tier>`: distills a tier into a
// small student, which becomes a new tier. Above 300 lines because of its 20 options.

import { join } from "node:path";
import { type ArgsDef, defineCommand, type ParsedArgs } from "citty";
import type { PublishSource } from "../../registry/publish.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import { getTask } from "../../tasks/tasks.ts";
import {
  distillTabularTier,
  readTabularLabels,
  openTabularTierAsTeacher,
} from "../../toolchain/distill/distill-tabular-tier.ts";
import { distillTextTier } from "../../toolchain/distill/distill-text-tier.ts";
import type { DistillContext, DistilledTier } from "../../toolchain/distill/distilled-tier.ts";
import type { TabularStudentEvaluation } from "../../toolchain/distill/evaluate-tabular-students.ts";
import type { TextStudentEvaluation } from "../../toolchain/distill/evaluate-text-students.ts";
import {
  findInsertPosition,
  type NewTierSpec,
  writeInsertedTier,
} from "../../toolchain/distill/insert-tier.ts";
import {
  readTabularSamples,
  readTextSamples,
} from "../../toolchain/distill/read-training-samples.ts";
import type { DistillOptions } from "../../toolchain/distill/train-students.ts";
import { toolchainErrors } from "../../toolchain/errors.ts";
import { readSamples } from "../../toolchain/evaluate/labeled-samples.ts";
import { requireClassification } from "../../toolchain/evaluate/project-tier.ts";
import { readProject } from "../../toolchain/project.ts";
import { cliErrors } from "../errors.ts";
import { createProgressLine, withRunners } from "../evaluation-runners.ts";
import { PROJECT_ROOT } from "../local/paths.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { parseCount } from "./samples-args.ts";

const NAME = "edgetier model distill";
const CACHE_FOLDER = join(PROJECT_ROOT, "dist/teacher-answers");
/** N-gram settings of models/intent. */
const NGRAM_OPTIONS = { wordNgrams: [1, 2], charNgrams: [3, 4, 5], maxFeatures: 512 };
const BATCH = 512;
const QAT_EPOCHS = 2;
/** Tabular students have few inputs and no slow-learning embeddings, so their rate is lower. */
const LEARNING_RATES = { "text-ngrams": 6e-3, tabular: 2e-3 } as const;
const [DROPOUT, FEATURE_DROPOUT] = [0.1, 0.05];
/** Names of steps on the progress line, if they differ from the event's. */
const SHOWN_STEPS: Readonly<Record<string, string>> = {
  "int8-fine-tuning": "student in INT8",
  "label-only-baseline": "labels alone",
};

const distillArgs = {
  folder: {
    type: "positional",
    description: "Folder with the model.json, for example models/intent",
    required: true,
  },
  teacher: {
    type: "string",
    valueHint: "tier",
    description: "Tier whose answers the student learns",
    required: true,
  },
  student: {
    type: "enum",
    options: ["text-ngrams", "tabular"],
    description:
      "text-ngrams: embeddings of hashed n-grams and a dense layer; tabular: a dense layer on rows of numbers",
    required: true,
  },
  samples: {
    type: "string",
    valueHint: "path",
    description:
      'Inputs for the teacher: a file with one {"text"} per line (tabular: {"row": [numbers]}, or a .npy array), or a folder with one text per file. A line may have a "label"',
    required: true,
  },
  "labeled-samples": {
    type: "string",
    valueHint: "path",
    description: "Additional training samples with labels",
  },
  validation: {
    type: "string",
    valueHint: "path",
    description: "Labeled samples for the evaluation; by default a tenth of the others",
  },
  out: {
    type: "string",
    alias: "o",
    valueHint: "tier",
    description: "Id of the new tier",
    required: true,
  },
  place: {
    type: "enum",
    options: ["edge", "region"],
    default: "edge",
    description: "Place of the new tier",
  },
  temperature: {
    type: "string",
    valueHint: "number",
    default: "1",
    description: "Divisor that softens the logits",
  },
  alpha: {
    type: "string",
    valueHint: "share",
    default: "0.75",
    description: "Weight of the teacher for samples with a label",
  },
  loss: {
    type: "enum",
    options: ["cross-entropy", "squares"],
    default: "cross-entropy",
    description:
      "Loss of a tabular student; squares is for teachers that return numbers, not logits",
  },
  epochs: {
    type: "string",
    valueHint: "n",
    default: "12",
    description: "Number of training epochs",
  },
  "learning-rate": {
    type: "string",
    valueHint: "number",
    description: `Maximum learning rate of Adam; by default ${LEARNING_RATES["text-ngrams"]}, or ${LEARNING_RATES.tabular} for tabular`,
  },
  seed: {
    type: "string",
    valueHint: "n",
    default: "1",
    description: "Seed of the training; equal seeds give equal tiers",
  },
  hidden: {
    type: "string",
    valueHint: "n",
    default: "448",
    description: "Units of the hidden layer; 0 omits it",
  },
  buckets: {
    type: "string",
    valueHint: "n",
    default: "5632",
    description: "Number of embeddings of text-ngrams",
  },
  dims: {
    type: "string",
    valueHint: "n",
    default: "80",
    description: "Dimensions of an embedding",
  },
  "quantization-aware": {
    type: "boolean",
    description: `Train ${QAT_EPOCHS} more epochs with values rounded to 8 bits`,
  },
  augment: {
    type: "string",
    valueHint: "n",
    default: "0",
    description:
      "Augmented copies of each text, with words dropped, swapped, replaced or misspelled, and texts spliced",
  },
  cache: {
    type: "string",
    valueHint: "folder",
    default: CACHE_FOLDER,
    description: "Cache folder for the teacher's answers",
  },
  replace: { type: "boolean", description: "Replace the tier with the same id" },
  "dry-run": { type: "boolean", description: "Show the students' figures and write no files" },
  ...jsonArg,
} as const satisfies ArgsDef;

type DistillArgs = ParsedArgs<typeof distillArgs>;

export const command = defineCommand({
  meta: {
    name: "distill",
    description:
      "Distill a tier's answers into a small student, and insert it as a tier before the teacher (Hinton et al. 2015)",
  },
  args: distillArgs,
  async run({ args }) {
    const source = await readProject(args.folder);
    const newTier: NewTierSpec = {
      id: args.out,
      place: args.place,
      teacher: args.teacher,
      replace: args.replace === true,
    };
    findInsertPosition(source.project, newTier); // fails before any runtime starts
    const training = parseTraining(args);
    const progress = createProgressLine();
    const distilled = await withRunners(async (runners) => {
      const tools: DistillContext = {
        runner: runners[args.place],
        runtime: createNativeRuntime(),
        onProgress: createProgressHandler(progress.show),
      };
      return args.student === "tabular"
        ? await distillRows({ source, newTier, args, training, tools })
        : await distillTexts({ source, newTier, args, training, tools });
    });
    progress.clear();
    const isWritten = args["dry-run"] !== true;
    if (isWritten) await writeInsertedTier(args.folder, distilled.tier);
    if (args.json) return printJson(toResult(distilled, isWritten));
    printLine(renderTable([distilled.header, ...distilled.rows]));
    printLine(
      `\nTrained on ${distilled.trainingCount} samples, evaluated on ${distilled.evaluationCount}; selected ${distilled.chosen}`,
    );
    if (isWritten) printLine(`Tier ${newTier.id} is in ${args.folder}/model.json.`);
  },
});

type Training = DistillOptions & { readonly cacheFolder: string };

/** @throws usage */
const parseTraining = (args: DistillArgs): Training => ({
  seed: parseCount("--seed", args.seed, NAME),
  epochs: parseCount("--epochs", args.epochs, NAME),
  hidden: parseCountOrZero("--hidden", args.hidden),
  temperature: readNumber("--temperature", args.temperature, 0.1, 100),
  alpha: readNumber("--alpha", args.alpha, 0, 1),
  learningRate:
    args["learning-rate"] === undefined
      ? LEARNING_RATES[args.student]
      : readNumber("--learning-rate", args["learning-rate"], 1e-6, 1),
  batchSize: BATCH,
  dropout: DROPOUT,
  int8Epochs: args["quantization-aware"] === true ? QAT_EPOCHS : 0,
  cacheFolder: args.cache,
});

const createProgressHandler =
  (
    show: (activity: string, done: number, total: number) => void,
  ): NonNullable<DistillContext["onProgress"]> =>
  (event) => {
    const step = SHOWN_STEPS[event.step] ?? event.step;
    const loss = "loss" in event ? event.loss : undefined;
    show(loss === undefined ? step : `${step} (loss ${loss.toFixed(4)})`, event.done, event.total);
  };

interface DistillJob {
  readonly source: PublishSource;
  readonly newTier: NewTierSpec;
  readonly args: DistillArgs;
  readonly training: Training;
  readonly tools: DistillContext;
}

async function distillRows({ source, newTier, args, training, tools }: DistillJob) {
  const { samples, validation } = await readRowDatasets(source, args);
  const distilled = await distillTabularTier(
    source,
    newTier,
    samples,
    validation,
    { ...training, loss: args.loss },
    tools,
  );
  return {
    ...distilled,
    rows: distilled.evaluations.map(tabularCells),
    header: ["STUDENT", "ACCURACY", "AGREES", "R SQUARED", ...sizeHeaders(args.place)],
  };
}

async function distillTexts({ source, newTier, args, training, tools }: DistillJob) {
  const { samples, validation } = await readTextDatasets(source, args);
  const options = {
    ...training,
    embeddingDims: parseCount("--dims", args.dims, NAME),
    augmentedCopies: parseCountOrZero("--augment", args.augment),
    featureDropout: FEATURE_DROPOUT,
    features: {
      kind: "hashed-ngrams",
      buckets: Math.max(2, parseCount("--buckets", args.buckets, NAME)),
      ...NGRAM_OPTIONS,
    } as const,
  };
  const distilled = await distillTextTier(source, newTier, samples, validation, options, tools);
  return {
    ...distilled,
    rows: distilled.evaluations.map(textCells),
    header: [
      "STUDENT",
      "IN SCOPE",
      "AGREES",
      "WITH OOS RULE",
      "OOS RECALL",
      "ECE",
      ...sizeHeaders(args.place),
    ],
  };
}

const sizeHeaders = (place: string): string[] => ["BYTES", "GZIP", `${place.toUpperCase()} P50 MS`];

interface DatasetArgs {
  readonly teacher: string;
  readonly samples: string;
  readonly "labeled-samples"?: string | undefined;
  readonly validation?: string | undefined;
}

async function readTextDatasets(
  source: PublishSource,
  { samples, "labeled-samples": labeledSamples, validation }: DatasetArgs,
) {
  const project = requireClassification(source.project);
  if (project.task !== "text-classification")
    throw toolchainErrors.notDistillable(
      `${project.model} has the task ${project.task}, but an n-gram student reads texts`,
      "Choose another --student.",
    );
  const limits = project.input;
  return {
    samples: [
      ...(await readTextSamples(samples, limits)),
      ...(labeledSamples === undefined ? [] : await readTextSamples(labeledSamples, limits)),
    ],
    validation:
      validation === undefined
        ? undefined
        : await readSamples(validation, { task: getTask(project.task), limits }),
  };
}

async function readRowDatasets(
  source: PublishSource,
  { teacher, samples, "labeled-samples": labeledSamples, validation }: DatasetArgs,
) {
  const names = readTabularLabels(source);
  const { width, close } = await openTabularTierAsTeacher(source, teacher);
  await close();
  const read = async (path: string | undefined) =>
    path === undefined ? [] : await readTabularSamples(path, width, names);
  return {
    samples: [...(await read(samples)), ...(await read(labeledSamples))],
    validation: validation === undefined ? undefined : await read(validation),
  };
}

function parseCountOrZero(option: string, value: string): number {
  return value === "0" ? 0 : parseCount(option, value, NAME);
}

function readNumber(option: string, value: string, min: number, max: number): number {
  const number = Number(value);
  if (value.trim() === "" || !(number >= min && number <= max))
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(value)}; expected a number from ${min} to ${max}`,
      NAME,
    );
  return number;
}

const percent = (share: number | undefined) =>
  share === undefined ? "-" : `${(100 * share).toFixed(2)} %`;
const sizeCells = ({
  bytes,
  gzipBytes,
  p50Ms,
}: {
  readonly bytes: number;
  readonly gzipBytes: number;
  readonly p50Ms: number | undefined;
}) => [
  bytes === 0 ? "" : formatBytes(bytes),
  bytes === 0 ? "" : formatBytes(gzipBytes),
  p50Ms?.toFixed(3) ?? "",
];

function textCells({
  name,
  accuracy,
  agreement,
  calibrated,
  ...rest
}: TextStudentEvaluation): string[] {
  return [
    name,
    percent(accuracy),
    percent(agreement),
    percent(calibrated.inScopeAccuracy),
    percent(calibrated.oosRecall),
    calibrated.expectedCalibrationError.toFixed(4),
    ...sizeCells(rest),
  ];
}

function tabularCells({
  name,
  accuracy,
  agreement,
  rSquared,
  ...rest
}: TabularStudentEvaluation): string[] {
  return [name, percent(accuracy), percent(agreement), rSquared.toFixed(4), ...sizeCells(rest)];
}

function toResult(
  {
    evaluations,
    chosen,
    trainingCount,
    evaluationCount,
    tier,
  }: DistilledTier<TextStudentEvaluation> | DistilledTier<TabularStudentEvaluation>,
  isWritten: boolean,
) {
  return {
    chosen,
    learnt: trainingCount,
    judgedOn: evaluationCount,
    isWritten,
    tier: tier.tier,
    judged: evaluations.map((evaluation) =>
      "answers" in evaluation ? { ...evaluation, answers: undefined } : evaluation,
    ),
  };
}
