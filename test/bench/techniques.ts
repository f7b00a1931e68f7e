// `npm run bench:techniques`: evaluates every technique of the reference models' build plans against FP32. Measures accuracy,
// bytes, and latency in workerd and in Node, like `edgetier model build --dry-run`, and saves the result.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createProgressLine, withRunners } from "../../src/cli/evaluation-runners.ts";
import { MODELS_FOLDER } from "../../src/cli/local/paths.ts";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { getTask } from "../../src/tasks/tasks.ts";
import { readProjectWithSources } from "../../src/toolchain/build-plan/build-files.ts";
import { BUILD_PLAN_FILE, readBuildPlan } from "../../src/toolchain/build-plan/build-plan.ts";
import { buildProject } from "../../src/toolchain/build-plan/build-project.ts";
import { readSamples } from "../../src/toolchain/evaluate/labeled-samples.ts";
import { requireClassification } from "../../src/toolchain/evaluate/project-tier.ts";
import { DATASET_SPLITS } from "./lib/dataset-splits.ts";
import { writeBenchReport } from "./lib/report.ts";

const CALIBRATION_SAMPLES = 256;
const MODELS = Object.keys(DATASET_SPLITS).filter((model) =>
  existsSync(join(MODELS_FOLDER, model, BUILD_PLAN_FILE)),
);

const { values } = parseArgs({
  options: {
    model: { type: "string", multiple: true, default: MODELS },
    limit: { type: "string", default: "1000000" },
    rounds: { type: "string", default: "40" },
    quick: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(`npm run bench:techniques -- [--model ${MODELS.join(" | ")}] [--limit samples] [--rounds of latency] [--quick: few of both, nothing kept]

Samples are read from the folder EDGETIER_DATA_DIR (../shared/data). Only a run of all models and samples is kept.`);
  process.exit(0);
}
const [limit, rounds] = values.quick ? [50, 2] : [Number(values.limit), Number(values.rounds)];

type Row = { readonly case: string } & Record<string, number | string>;
const rows: Row[] = [];
const figures: Record<string, number> = {};
let sampleCount = 0;
for (const model of values.model) {
  const parts = DATASET_SPLITS[model];
  const folder = join(MODELS_FOLDER, model);
  const plan = await readBuildPlan(folder, console.warn);
  if (parts === undefined || plan === undefined)
    throw new Error(`${model} has no samples that are known here, or no build.json`);
  const source = await readProjectWithSources(folder, plan);
  const project = requireClassification(source.project);
  const options = { task: getTask(project.task), limits: project.input };
  const samples = await readSamples(await parts.validation(), { ...options, limit });
  const calibration = await readSamples(await parts.training(), {
    ...options,
    limit: CALIBRATION_SAMPLES,
  });
  sampleCount += samples.length;
  const progress = createProgressLine();
  const { tiers } = await withRunners(({ edge, region }) =>
    buildProject(source, project, plan, {
      runners: { edge, region },
      runtime: createNativeRuntime(),
      evaluationSamples: samples,
      rangeSamples: calibration,
      rounds,
      onProgress: (tier, event) =>
        progress.show(`${model} ${tier}, ${event.kind}`, event.done, event.total),
    }),
  );
  progress.clear();
  for (const { tier, evaluations: judgements, chosen } of tiers) {
    for (const { name, bytes, gzipBytes, refused, measured } of judgements) {
      const times = Object.entries(measured?.latency ?? {}).flatMap(
        ([runtime, { p50Ms, ratio }]) =>
          [
            [`${runtime}P50Ms`, p50Ms],
            [`${runtime}Ratio`, ratio],
          ] as const,
      );
      rows.push({
        case: `${model} ${tier}, ${name}`,
        ...(measured === undefined
          ? {}
          : {
              accuracy: measured.accuracy,
              lossPoints: measured.lossPoints,
              agreement: measured.agreement,
            }),
        bytes,
        gzipBytes,
        ...Object.fromEntries(times),
        verdict:
          refused.length > 0
            ? `refused: ${refused.join("; ")}`
            : name === chosen.name
              ? "taken"
              : "",
      });
    }
    const taken = judgements.find(({ name }) => name === chosen.name);
    figures[`lossPoints.${model}.${tier}`] = taken?.measured?.lossPoints ?? Number.NaN;
    figures[`bytesRatio.${model}.${tier}`] =
      (taken?.bytes ?? Number.NaN) / (judgements[0]?.bytes ?? Number.NaN);
  }
}
const isWhole =
  !values.quick &&
  MODELS.every((model) => values.model.includes(model)) &&
  Number(values.limit) >= 1_000_000;
await writeBenchReport({
  name: "techniques",
  seed: 1,
  n: sampleCount,
  packages: ["onnxruntime-node", "onnxruntime-web"],
  isSaved: isWhole,
  rows,
  figures,
});
