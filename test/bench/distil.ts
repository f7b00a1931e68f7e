// `npm run bench:distil`: an edge tier of intent distilled anew from its region tier, on the train part: against its teacher,
// against training on the labels alone, and against the tier that is shipped; in workerd, on the validation part.
// [--vary copies] [--epochs n] [--seed n] [--quick: little of everything, nothing kept] [--out folder: the graphs]
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { distilText, type DistilTextOptions } from "../../src/toolchain/distil/distil-text.ts";
import { type Judged, judgeStudents } from "../../src/toolchain/distil/judge-students.ts";
import { readTexts } from "../../src/toolchain/distil/read-samples.ts";
import { askTeacher } from "../../src/toolchain/distil/teacher.ts";
import { openTierAsTeacher } from "../../src/toolchain/distil/text-teacher.ts";
import {
  classificationOf,
  fileOf,
  labelsOf,
  preprocessorConfigOf,
} from "../../src/toolchain/judge/project-tier.ts";
import { readSamples } from "../../src/toolchain/judge/samples.ts";
import { readProject } from "../../src/toolchain/project.ts";
import { createProgressLine, withRunners } from "../../src/cli/judging.ts";
import { MODELS_FOLDER, PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { taskByName } from "../../src/tasks/tasks.ts";
import { report, rounded } from "./lib/report.ts";
import { SAMPLE_PARTS } from "./lib/sample-parts.ts";

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
    "npm run bench:distil -- [--vary copies] [--epochs n] [--seed n] [--temperature t] [--alpha a] [--out folder] [--quick]\n\nThe data are read from the folder EDGETIER_DATA_DIR (../shared/data). The teacher's answers are kept in dist/teacher-answers.",
  );
  process.exit(0);
}
const parts = SAMPLE_PARTS["intent"];
if (parts === undefined) throw new Error("intent has no samples that are known here");
const source = await readProject(join(MODELS_FOLDER, "intent"));
const project = classificationOf(source.project);
const { input: limits } = project;
const [task, labels] = [taskByName(project.task), labelsOf(source, project)];
const [shipped, teacherTier] = [
  project.tiers.find(({ place }) => place === "edge"),
  project.tiers.at(-1),
];
if (shipped === undefined || teacherTier === undefined)
  throw new Error("intent has no edge tier, or no other");
const limit = values.quick ? 300 : Number.POSITIVE_INFINITY;
const learnt = (await readTexts(await parts.calibration(), limits)).slice(0, limit);
const validation = await readSamples(await parts.validation(), {
  task,
  limits,
  ...(values.quick ? { limit } : {}),
});

const seed = Number(values.seed);
const options: DistilTextOptions = {
  seed,
  epochs: values.quick ? 1 : Number(values.epochs),
  vary: values.quick ? 0 : Number(values.vary),
  hidden: 448,
  dims: 80,
  temperature: Number(values.temperature),
  alpha: Number(values.alpha),
  batch: 512,
  rate: 6e-3,
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
  cache: join(PROJECT_ROOT, "dist/teacher-answers"),
};
const progress = createProgressLine();
const startedAtMs = performance.now();
const teacher = await openTierAsTeacher(source, project, teacherTier);
const distilled = await distilText(
  teacher,
  learnt,
  labels,
  createNativeRuntime(),
  options,
  ({ step, done, of }) => progress.show(step, done, of),
);
const trainingSeconds = (performance.now() - startedAtMs) / 1_000;
const answers = await askTeacher(
  teacher,
  validation.map(({ input }) => input),
);
await teacher.close();
const ofTeacher = validation.map((_, row) =>
  answers.slice(row * labels.length, (row + 1) * labels.length),
);

const preprocessor = task.createPreprocessor(preprocessorConfigOf(source, shipped), {});
const candidates = [
  ...distilled.students,
  ...distilled.labelsAlone,
  { name: "shipped", graph: fileOf(source, shipped.graph) },
];
if (values.out !== undefined) {
  await mkdir(values.out, { recursive: true });
  for (const { name, graph } of candidates)
    await writeFile(join(values.out, `${name}.onnx`), graph);
}
const judged = await withRunners(({ edge }) =>
  judgeStudents(candidates, ofTeacher, validation, {
    labels,
    oosLabel: "oos",
    runner: edge,
    preprocessor,
    rounds: values.quick ? 2 : 40,
    onProgress: ({ step, done, of }) => progress.show(step, done, of),
  }),
);
progress.clear();

const of = (name: string): Judged => judged.find((one) => one.name === name) ?? missing(name);
const best = [of("int8"), of("int8-aware")].reduce((one, other) =>
  other.accuracy > one.accuracy ? other : one,
);
const points = (one: Judged, other: Judged) => rounded(100 * (one.accuracy - other.accuracy));
await report({
  name: "distil",
  seed,
  n: validation.length,
  packages: ["onnxruntime-node", "onnxruntime-web", "@jax-js/jax"],
  notes: [
    `${distilled.texts} texts learnt, ${learnt.length} of them from the train part; ${trainingSeconds.toFixed(0)} s with the teacher's answers. Accuracy is of the queries in scope, without a rule for what is out of scope; "calibrated" is with one that may cost 1 point, fitted to the same validation part.`,
  ],
  isKept: !values.quick,
  rows: judged.map(
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
    inScopeAccuracy: best.accuracy,
    oosRecall: best.calibrated.oosRecall ?? Number.NaN,
    vsTeacherPoints: points(best, of("teacher")),
    vsLabelsAlonePoints: points(best, of("labels-int8")),
    vsShippedPoints: points(best, of("shipped")),
    int8LossPoints: points(of("fp32"), of("int8")),
    int8AwareGainPoints: points(of("int8-aware"), of("int8")),
    bytes: best.bytes,
  },
});

function missing(name: string): never {
  throw new Error(`${name} could not be run`);
}
