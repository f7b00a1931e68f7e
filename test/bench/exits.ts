// `npm run bench:exits`: cuts a model's region tier at every proposed position. Reports the share of computation,
// the accuracy of an exit head, the bytes sent to the region, and the first stage's latency in workerd.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { deflateRawSync } from "node:zlib";
import { createProgressLine, withRunners } from "../../src/cli/evaluation-runners.ts";
import { MODELS_FOLDER } from "../../src/cli/local/paths.ts";
import { byteView } from "../../src/core/bytes.ts";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { getTask } from "../../src/tasks/tasks.ts";
import {
  findTierCuts,
  type EvaluatedCut,
  createExits,
  selectTierToCut,
} from "../../src/toolchain/early-exit/create-exits.ts";
import { selectProposals } from "../../src/toolchain/early-exit/find-cuts.ts";
import { ACTIVATION } from "../../src/toolchain/early-exit/stages.ts";
import { DEFAULT_HEAD_TRAINING } from "../../src/toolchain/early-exit/train-heads.ts";
import { encodeSamples, type EncodedSample } from "../../src/toolchain/evaluate/evaluation-set.ts";
import { readSamples } from "../../src/toolchain/evaluate/labeled-samples.ts";
import { compareLatency } from "../../src/toolchain/evaluate/latency.ts";
import {
  requireClassification,
  requireProjectFile,
  readProjectLabels,
  createTierPreprocessor,
} from "../../src/toolchain/evaluate/project-tier.ts";
import { readProject } from "../../src/toolchain/project.ts";
import { DATASET_SPLITS } from "./lib/dataset-splits.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const { values } = parseArgs({
  options: {
    model: { type: "string", default: "vision" },
    project: { type: "string" },
    tier: { type: "string" },
    limit: { type: "string", default: "2000" },
    calibration: { type: "string", default: "10000" },
    "max-loss": { type: "string", default: "0.5" },
    "least-share": { type: "string", default: "0.01" },
    quick: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(`npm run bench:exits -- [--model ${Object.keys(DATASET_SPLITS).join(" | ")}] [--project folder] [--tier id] [--limit samples] [--calibration samples] [--max-loss points] [--least-share of the computation] [--quick: few samples, nothing kept]

Samples are read from the folder EDGETIER_DATA_DIR (../shared/data).`);
  process.exit(0);
}
/** Size of a phone's photograph. */
const PHOTOGRAPH_BYTES = 2_000_000;
const COMPRESSED_SAMPLES = 100;

const parts = DATASET_SPLITS[values.model];
if (parts === undefined) throw new Error(`no samples are known here of ${values.model}`);
const source = await readProject(values.project ?? join(MODELS_FOLDER, values.model));
const project = requireClassification(source.project);
const tier = selectTierToCut(project, values.tier);
const reading = { task: getTask(project.task), limits: project.input };
const [limit, lessons] = values.quick
  ? [60, 200]
  : [Number(values.limit), Number(values.calibration)];
const samples = await readSamples(await parts.validation(), { ...reading, limit });
const calibration = await readSamples(await parts.training(), { ...reading, limit: lessons });
const runtime = createNativeRuntime({ intraOpThreads: 1 });
const progress = createProgressLine();

const isText = project.task === "text-classification";
const maxLossPoints = Number(values["max-loss"]);
const { cuts, inputBytes, times } = await withRunners(async (runners) => {
  const places = selectProposals(
    await findTierCuts(source, project, tier, runtime, samples),
  ).filter(({ share }) => share >= Number(values["least-share"]));
  // Labels are used if all samples have one. Out-of-scope samples of a text model have none, so its answers serve as labels.
  const learning = { ...DEFAULT_HEAD_TRAINING, targets: isText ? "both" : "labels" } as const;
  const made = await createExits(source, project, tier, places, {
    runners,
    runtime,
    trainingSamples: calibration,
    evaluationSamples: samples,
    training: learning,
    maxLossPoints,
    onProgress: progress.show,
  });
  const evaluationSamples = encodeSamples(
    samples.slice(0, 20),
    createTierPreprocessor(source, project, tier),
    readProjectLabels(source, project),
  );
  const graphs = [
    requireProjectFile(source, tier.graph),
    ...made.cuts.map((cut) => cut.graphs.first),
  ];
  const sessions = [];
  for (const graph of graphs) sessions.push(await runners.edge.open(graph));
  const latencies = await compareLatency(
    sessions,
    evaluationSamples.map(({ inputs }) => inputs),
    values.quick ? 2 : 40,
  );
  return { ...made, times: latencies };
});
progress.clear();

const evaluationSet = encodeSamples(
  samples.slice(0, COMPRESSED_SAMPLES),
  createTierPreprocessor(source, project, tier),
  readProjectLabels(source, project),
);
const rows = [];
for (const [position, cut] of cuts.entries()) {
  const { accuracy, exit, resumed, exact } = cut.judgement;
  rows.push({
    case: cut.value,
    shareOfMacs: cut.share,
    headAccuracy: accuracy,
    exitShare: exit.coverage,
    exitConfidence: exit.confidence,
    lossPoints: exit.lossPoints,
    workRatio: cut.work,
    activationBytes: cut.bytesPerRow,
    activationDeflatedBytes: await measureCompressedBytes(cut, evaluationSet),
    inputBytes: Math.round(inputBytes),
    activationOverInput: cut.bytesPerRow / inputBytes,
    ...(isText ? {} : { activationOverPhotograph: cut.bytesPerRow / PHOTOGRAPH_BYTES }),
    sends: cut.sends,
    resumedAgreement: resumed.agreement,
    resumedLossPoints: resumed.lossPoints,
    exactLargestDifference: exact.largestDifference,
    firstStageBytes: cut.firstBytes,
    workerdP50Ms: times[position + 1]?.p50Ms ?? Number.NaN,
    workerdP50OverWhole: times[position + 1]?.ratio ?? Number.NaN,
  });
}

const best = cuts.toSorted((a, b) => a.work - b.work)[0];
await writeBenchReport({
  name: values.model === "vision" ? "exits" : `exits-${values.model}`,
  seed: DEFAULT_HEAD_TRAINING.seed,
  n: samples.length,
  packages: ["onnxruntime-node", "onnxruntime-web"],
  isSaved: !values.quick,
  rows: [
    {
      case: "whole graph",
      shareOfMacs: 1,
      headAccuracy: best?.judgement.wholeAccuracy ?? Number.NaN,
      firstStageBytes: requireProjectFile(source, tier.graph).byteLength,
      workerdP50Ms: times[0]?.p50Ms ?? Number.NaN,
      workerdP50OverWhole: 1,
    },
    ...rows,
  ],
  figures: {
    maxLossPoints,
    calibrationSamples: calibration.length,
    meanInputBytes: roundToFourDigits(inputBytes),
    smallestActivationOverInput: roundToFourDigits(
      Math.min(...cuts.map((cut) => cut.bytesPerRow)) / inputBytes,
    ),
    bestWorkRatio: roundToFourDigits(best?.work ?? Number.NaN),
    bestExitShare: roundToFourDigits(best?.judgement.exit.coverage ?? Number.NaN),
    bestShareOfMacs: roundToFourDigits(best?.share ?? Number.NaN),
  },
  notes: [
    "workRatio: multiplications of a request in all by those of the whole graph: the first stage, and, for what does not exit, the rest (or, where the input is sent, all of it). 1 and more does not pay.",
    ...(isText
      ? []
      : [
          `A photograph of ${PHOTOGRAPH_BYTES} bytes has the same activation as one of ${Math.round(inputBytes)}: it is made from the pixels that the graph takes.`,
        ]),
  ],
});

/** Mean bytes of one row, compressed with DEFLATE, which the region accepts as a content encoding. */
async function measureCompressedBytes(
  { graphs }: EvaluatedCut,
  questions: readonly EncodedSample[],
): Promise<number> {
  const session = await runtime.createSession(graphs.first);
  try {
    let total = 0;
    for (const { inputs } of questions) {
      const activation = (await session.run(inputs))[ACTIVATION];
      if (activation !== undefined && activation.datatype !== "BYTES")
        total += deflateRawSync(byteView(activation.data)).byteLength;
    }
    return Math.round(total / questions.length);
  } finally {
    await session.dispose();
  }
}
