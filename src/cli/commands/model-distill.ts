// `edgetier model distil <folder> --teacher <tier> --samples <path> --student text-ngrams --out <tier>`: a small tier that has learnt
// a larger one's answers.

import { toolchainErrors } from "../../toolchain/errors.ts";
import { cliErrors } from "../errors.ts";
import { join } from "node:path";
import { defineCommand } from "citty";
import type { TabularStudentEvaluation } from "../../toolchain/distill/evaluate-tabular-students.ts";
import type { TextStudentEvaluation } from "../../toolchain/distill/evaluate-text-students.ts";
import {
  distillTabularTier,
  readTabularLabels,
  openTabularTierAsTeacher,
} from "../../toolchain/distill/distill-tabular-tier.ts";
import { distillTextTier } from "../../toolchain/distill/distill-text-tier.ts";
import type { DistillContext, DistilledTier } from "../../toolchain/distill/distilled-tier.ts";
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
import { requireClassification } from "../../toolchain/evaluate/project-tier.ts";
import { readSamples } from "../../toolchain/evaluate/labeled-samples.ts";
import { readProject } from "../../toolchain/project.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import { getTask } from "../../tasks/tasks.ts";
import { createProgressLine, withRunners } from "../evaluation-runners.ts";
import { PROJECT_ROOT } from "../local/paths.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { parseCount } from "./samples-args.ts";

const NAME = "edgetier model distil";
const CACHE_FOLDER = join(PROJECT_ROOT, "dist/teacher-answers");
/** Of hashed n-grams, as in models/intent. */
const NGRAM_OPTIONS = { wordNgrams: [1, 2], charNgrams: [3, 4, 5], maxFeatures: 512 };
const BATCH = 512;
const QAT_EPOCHS = 2;
/** Rows of tables have few numbers, and no embeddings that learn slowly. */
const LEARNING_RATES = { "text-ngrams": 6e-3, tabular: 2e-3 } as const;
const [DROPOUT, FEATURE_DROPOUT] = [0.1, 0.05];
/** On the progress line, where they are not shown as they are. */
const SHOWN_STEPS: Readonly<Record<string, string>> = {
  "int8-fine-tuning": "student in INT8",
  "label-only-baseline": "labels alone",
};

export const command = defineCommand({
  meta: {
    name: "distil",
    description:
      "Teach a tier's answers to a small student, and make that a tier before it (Hinton et al. 2015)",
  },
  args: {
    folder: {
      type: "positional",
      description: "Folder with the model.json, for example models/intent",
      required: true,
    },
    teacher: {
      type: "string",
      valueHint: "tier",
      description: "The tier whose answers are learnt",
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
        'What the teacher is asked: a file with one {"text"} a line (tabular: {"row": [numbers]}, or a .npy array), or a folder with one text a file. A line may have a "label"',
      required: true,
    },
    labels: { type: "string", valueHint: "path", description: "Further samples, that have labels" },
    validation: {
      type: "string",
      valueHint: "path",
      description: "Labelled samples to judge on; a tenth of the others by default",
    },
    out: {
      type: "string",
      alias: "o",
      valueHint: "tier",
      description: "Name of the new tier",
      required: true,
    },
    place: {
      type: "enum",
      options: ["edge", "region"],
      default: "edge",
      description: "Where it will run",
    },
    temperature: {
      type: "string",
      valueHint: "number",
      default: "1",
      description: "By which logits are divided to soften them",
    },
    alpha: {
      type: "string",
      valueHint: "share",
      default: "0.75",
      description: "How much the teacher counts where a sample has a label",
    },
    loss: {
      type: "enum",
      options: ["cross-entropy", "squares"],
      default: "cross-entropy",
      description: "Of tabular: squares for a teacher that gives numbers, and no logits",
    },
    epochs: {
      type: "string",
      valueHint: "n",
      default: "12",
      description: "How often all samples are gone through",
    },
    rate: {
      type: "string",
      valueHint: "number",
      description: `The largest step of Adam; ${LEARNING_RATES["text-ngrams"]}, or ${LEARNING_RATES.tabular} for tabular`,
    },
    seed: {
      type: "string",
      valueHint: "n",
      default: "1",
      description: "The same seed makes the same tier",
    },
    hidden: {
      type: "string",
      valueHint: "n",
      default: "448",
      description: "Units of the hidden layer; 0 for none",
    },
    buckets: {
      type: "string",
      valueHint: "n",
      default: "5632",
      description: "Embeddings of text-ngrams",
    },
    dims: { type: "string", valueHint: "n", default: "80", description: "Numbers of an embedding" },
    "quantisation-aware": {
      type: "boolean",
      description: `Train on for ${QAT_EPOCHS} epochs with numbers rounded to 8 bits`,
    },
    vary: {
      type: "string",
      valueHint: "n",
      default: "0",
      description:
        "Varied copies of each text: words dropped, swapped, exchanged, misspelt, texts spliced",
    },
    cache: {
      type: "string",
      valueHint: "folder",
      default: CACHE_FOLDER,
      description: "Where the teacher's answers are kept for another try",
    },
    replace: { type: "boolean", description: "Put it in the place of the tier with its name" },
    "dry-run": { type: "boolean", description: "Show what students are worth, and write nothing" },
    ...jsonArg,
  },
  async run({ args }) {
    const source = await readProject(args.folder);
    const place: NewTierSpec = {
      id: args.out,
      place: args.place,
      teacher: args.teacher,
      replace: args.replace === true,
    };
    findInsertPosition(source.project, place); // what cannot be placed is refused before anything is started
    const training: DistillOptions & { readonly cacheFolder: string } = {
      seed: parseCount("--seed", args.seed, NAME) ?? 1,
      epochs: parseCount("--epochs", args.epochs, NAME) ?? 1,
      hidden: args.hidden === "0" ? 0 : (parseCount("--hidden", args.hidden, NAME) ?? 0),
      temperature: readNumber("--temperature", args.temperature, 0.1, 100),
      alpha: readNumber("--alpha", args.alpha, 0, 1),
      learningRate:
        args.rate === undefined
          ? LEARNING_RATES[args.student]
          : readNumber("--rate", args.rate, 1e-6, 1),
      batchSize: BATCH,
      dropout: DROPOUT,
      int8Epochs: args["quantisation-aware"] === true ? QAT_EPOCHS : 0,
      cacheFolder: args.cache,
    };
    const progress = createProgressLine();
    const onProgress: NonNullable<DistillContext["onProgress"]> = (event) => {
      const shown = SHOWN_STEPS[event.step] ?? event.step;
      const loss = "loss" in event ? event.loss : undefined;
      progress.show(
        loss === undefined ? shown : `${shown} (loss ${loss.toFixed(4)})`,
        event.done,
        event.total,
      );
    };
    const distilled = await withRunners(async (runners) => {
      const tools = { runner: runners[args.place], runtime: createNativeRuntime(), onProgress };
      if (args.student === "tabular") {
        const { samples, validation } = await readRowDatasets(source, args);
        const found = await distillTabularTier(
          source,
          place,
          samples,
          validation,
          { ...training, loss: args.loss },
          tools,
        );
        return {
          ...found,
          rows: found.evaluations.map(rowsCells),
          header: [
            "STUDENT",
            "ACCURACY",
            "AGREES",
            "R SQUARED",
            "BYTES",
            "GZIP",
            `${args.place.toUpperCase()} P50 MS`,
          ],
        };
      }
      const { samples, validation } = await readTextDatasets(source, args);
      const [buckets, embeddingDims] = [
        parseCount("--buckets", args.buckets, NAME) ?? 0,
        parseCount("--dims", args.dims, NAME) ?? 0,
      ];
      const augmentedCopies = args.vary === "0" ? 0 : (parseCount("--vary", args.vary, NAME) ?? 0);
      const options = {
        ...training,
        embeddingDims,
        augmentedCopies,
        featureDropout: FEATURE_DROPOUT,
        features: {
          kind: "hashed-ngrams",
          buckets: Math.max(2, buckets),
          ...NGRAM_OPTIONS,
        } as const,
      };
      const found = await distillTextTier(source, place, samples, validation, options, tools);
      return {
        ...found,
        rows: found.evaluations.map(textCells),
        header: [
          "STUDENT",
          "IN SCOPE",
          "AGREES",
          "WITH OOS RULE",
          "OOS RECALL",
          "ECE",
          "BYTES",
          "GZIP",
          `${args.place.toUpperCase()} P50 MS`,
        ],
      };
    });
    progress.clear();
    const isWritten = args["dry-run"] !== true;
    if (isWritten) await writeInsertedTier(args.folder, distilled.tier);
    if (args.json) return printJson(toResult(distilled, isWritten));
    printLine(renderTable([distilled.header, ...distilled.rows]));
    printLine(
      `\n${distilled.trainingCount} samples learnt, judged on ${distilled.evaluationCount}; ${distilled.chosen} is taken`,
    );
    if (isWritten) printLine(`Tier ${place.id} is in ${args.folder}/model.json.`);
  },
});

interface DatasetArgs {
  readonly teacher: string;
  readonly samples: string;
  readonly labels?: string | undefined;
  readonly validation?: string | undefined;
}

async function readTextDatasets(
  source: PublishSource,
  { samples, labels, validation }: DatasetArgs,
) {
  const project = requireClassification(source.project);
  if (project.task !== "text-classification")
    throw toolchainErrors.notDistillable(
      `${project.model} has the task ${project.task}, and a student on n-grams takes texts`,
      "Take another student.",
    );
  const limits = project.input;
  return {
    samples: [
      ...(await readTextSamples(samples, limits)),
      ...(labels === undefined ? [] : await readTextSamples(labels, limits)),
    ],
    validation:
      validation === undefined
        ? undefined
        : await readSamples(validation, { task: getTask(project.task), limits }),
  };
}

async function readRowDatasets(
  source: PublishSource,
  { teacher, samples, labels, validation }: DatasetArgs,
) {
  const names = readTabularLabels(source);
  const { width, close } = await openTabularTierAsTeacher(source, teacher);
  await close();
  const read = async (path: string | undefined) =>
    path === undefined ? [] : await readTabularSamples(path, width, names);
  return {
    samples: [...(await read(samples)), ...(await read(labels))],
    validation: validation === undefined ? undefined : await read(validation),
  };
}

function readNumber(option: string, value: string, least: number, most: number): number {
  const number = Number(value);
  if (value.trim() === "" || !(number >= least && number <= most))
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(value)}, and must be a number from ${least} to ${most}`,
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

function rowsCells({
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
    evaluations: judged,
    chosen,
    trainingCount: learnt,
    evaluationCount: judgedOn,
    tier,
  }: DistilledTier<TextStudentEvaluation> | DistilledTier<TabularStudentEvaluation>,
  isWritten: boolean,
) {
  return {
    chosen,
    learnt,
    judgedOn,
    isWritten,
    tier: tier.tier,
    judged: judged.map((one) => ("answers" in one ? { ...one, answers: undefined } : one)),
  };
}
