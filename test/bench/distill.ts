// `npm run bench:distill`: distills an edge tier of `intent` from its region tier, on the train part. Compares its
// teacher, training on labels alone and the shipped tier. Runs in workerd, on the validation part.
//
// [--vary copies] [--epochs n] [--seed n] [--quick: a smoke run, nothing saved] [--out folder: the graphs]
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createProgressLine, withRunners } from "../../src/cli/evaluation-runners.ts";
import { MODELS_FOLDER, PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { getTask } from "../../src/tasks/tasks.ts";
import { distillText, type DistillTextOptions } from "../../src/toolchain/distill/distill-text.ts";
import {
  type TextStudentEvaluation,
  evaluateTextStudents,
} from "../../src/toolchain/distill/evaluate-text-students.ts";
import { readTextSamples } from "../../src/toolchain/distill/read-training-samples.ts";
import { queryTeacher } from "../../src/toolchain/distill/teacher.ts";
import { openTextTierAsTeacher } from "../../src/toolchain/distill/text-teacher.ts";
import { readSamples } from "../../src/toolchain/evaluate/labeled-samples.ts";
import {
  requireClassification,
  requireProjectFile,
  readProjectLabels,
  readPreprocessorConfig,
} from "../../src/toolchain/evaluate/project-tier.ts";
import { readProject } from "../../src/toolchain/project.ts";
import { DATASET_SPLITS } from "./lib/dataset-splits.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const { values } = parseArgs({
  options: {
    vary: { type: "string", default: "16" },
    epochs: { type: "string", default: "12" },
    seed: { type: "string", default: "1" },
    temperature: { type: "string", default: "1" },
    alpha: { type: "string", default: "0.75" },
    quick: { type: "boolean", default: false },
    out: { type: "string" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(
    "npm run bench:distill -- [--vary copies] [--epochs n] [--seed n] [--temperature t] [--alpha a] [--out folder] [--quick]\n\nThe data are read from the folder EDGETIER_DATA_DIR (../shared/data). The teacher's answers are kept in dist/teacher-answers.",
  );
  process.exit(0);
}
const parts = DATASET_SPLITS["intent"];
if (parts === undefined) throw new Error("intent has no samples that are known here");
const source = await readProject(join(MODELS_FOLDER, "intent"));
const project = requireClassification(source.project);
const { input: limits } = project;
const [task, labels] = [getTask(project.task), readProjectLabels(source, project)];
const [shipped, teacherTier] = [
  project.tiers.find(({ place }) => place === "edge"),
  project.tiers.at(-1),
];
if (shipped === undefined || teacherTier === undefined)
  throw new Error("intent has no edge tier, or no other");
const limit = values.quick ? 300 : Number.POSITIVE_INFINITY;
const trainingTexts = (await readTextSamples(await parts.training(), limits)).slice(0, limit);
const validation = await readSamples(await parts.validation(), {
  task,
  limits,
  ...(values.quick ? { limit } : {}),
});

const seed = Number(values.seed);
const options: DistillTextOptions = {
  seed,
  epochs: values.quick ? 1 : Number(values.epochs),
  augmentedCopies: values.quick ? 0 : Number(values.vary),
  hidden: 448,
  embeddingDims: 80,
  temperature: Number(values.temperature),
  alpha: Number(values.alpha),
  batchSize: 512,
  learningRate: 6e-3,
  dropout: 0.1,
  featureDropout: 0.05,
  int8Epochs: 2,
  features: {
    kind: "hashed-ngrams",
    buckets: 5632,
    wordNgrams: [1, 2],
    charNgrams: [3, 4, 5],
    maxFeatures: 512,
  },
  cacheFolder: join(PROJECT_ROOT, "dist/teacher-answers"),
};
const progress = createProgressLine();
const startedAtMs = performance.now();
const teacher = await openTextTierAsTeacher(source, project, teacherTier);
const distillation = await distillText(
  teacher,
  trainingTexts,
  labels,
  createNativeRuntime(),
  options,
  ({ step, done, total }) => progress.show(step, done, total),
);
const trainingSeconds = (performance.now() - startedAtMs) / 1_000;
const answers = await queryTeacher(
  teacher,
  validation.map(({ input }) => input),
);
await teacher.close();
const teacherLabels = validation.map((_, row) =>
  answers.slice(row * labels.length, (row + 1) * labels.length),
);

const preprocessor = task.createPreprocessor(readPreprocessorConfig(source, shipped), {});
const candidates = [
  ...distillation.students,
  ...distillation.labelOnlyBaselines,
  { name: "shipped", graph: requireProjectFile(source, shipped.graph) },
];
if (values.out !== undefined) {
  await mkdir(values.out, { recursive: true });
  for (const { name, graph } of candidates)
    await writeFile(join(values.out, `${name}.onnx`), graph);
}
const evaluations = await withRunners(({ edge }) =>
  evaluateTextStudents(candidates, teacherLabels, validation, {
    labels,
    oosLabel: "oos",
    runner: edge,
    preprocessor,
    rounds: values.quick ? 2 : 40,
    onProgress: ({ kind: step, done, total }) => progress.show(step, done, total),
  }),
);
progress.clear();

const findEvaluation = (name: string): TextStudentEvaluation =>
  evaluations.find((evaluation) => evaluation.name === name) ?? missing(name);
const bestStudent = [findEvaluation("int8"), findEvaluation("int8-aware")].reduce((best, other) =>
  other.accuracy > best.accuracy ? other : best,
);
const accuracyGainPoints = (student: TextStudentEvaluation, other: TextStudentEvaluation) =>
  roundToFourDigits(100 * (student.accuracy - other.accuracy));
await writeBenchReport({
  name: "distil",
  seed,
  n: validation.length,
  packages: ["onnxruntime-node", "onnxruntime-web", "@jax-js/jax"],
  notes: [
    `${distillation.textCount} texts learnt, ${trainingTexts.length} of them from the train part; ${trainingSeconds.toFixed(0)} s with the teacher's answers. Accuracy is of the queries in scope, without a rule for what is out of scope; "calibrated" is with one that may cost 1 point, fitted to the same validation part.`,
  ],
  isSaved: !values.quick,
  rows: evaluations.map(
    ({ name, accuracy, agreement, calibration, calibrated, bytes, gzipBytes, p50Ms }) => ({
      case: name,
      inScopeAccuracy: accuracy,
      agreement,
      calibratedInScopeAccuracy: calibrated.inScopeAccuracy,
      oosRecall: calibrated.oosRecall ?? "",
      temperature: calibration.temperature,
      expectedCalibrationError: calibrated.expectedCalibrationError,
      ...(p50Ms === undefined ? {} : { bytes, gzipBytes, workerdP50Ms: p50Ms }),
    }),
  ),
  figures: {
    inScopeAccuracy: bestStudent.accuracy,
    oosRecall: bestStudent.calibrated.oosRecall ?? Number.NaN,
    vsTeacherPoints: accuracyGainPoints(bestStudent, findEvaluation("teacher")),
    vsLabelsAlonePoints: accuracyGainPoints(bestStudent, findEvaluation("labels-int8")),
    vsShippedPoints: accuracyGainPoints(bestStudent, findEvaluation("shipped")),
    int8LossPoints: accuracyGainPoints(findEvaluation("fp32"), findEvaluation("int8")),
    int8AwareGainPoints: accuracyGainPoints(findEvaluation("int8-aware"), findEvaluation("int8")),
    bytes: bestStudent.bytes,
  },
});

function missing(name: string): never {
  throw new Error(`${name} could not be run`);
}
