// `npm run eval -- intent`: accuracy, out-of-scope recall, calibration, shares and latency of each tier and of the
// cascade, on labeled samples. Random splits verify the risk that model.json states. Like `edgetier model eval`,
// on the validation part by default, with the result stored.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { parsePrices, parseRisk } from "../../src/cli/commands/risk-args.ts";
import { predictAllTiers, createProgressLine } from "../../src/cli/evaluation-runners.ts";
import { MODELS_FOLDER } from "../../src/cli/local/paths.ts";
import { getTask } from "../../src/tasks/tasks.ts";
import { calibrationMethodOf } from "../../src/toolchain/calibrate/fit-calibration.ts";
import {
  type RiskValidationSummary,
  validateRiskBound,
} from "../../src/toolchain/calibrate/validate-risk-bound.ts";
import {
  evaluateRun,
  createCalibrationTiers,
} from "../../src/toolchain/evaluate/evaluate-project.ts";
import { readSamples } from "../../src/toolchain/evaluate/labeled-samples.ts";
import { requireClassification } from "../../src/toolchain/evaluate/project-tier.ts";
import { readProject } from "../../src/toolchain/project.ts";
import { DATASET_SPLITS } from "./lib/dataset-splits.ts";
import { writeBenchReport } from "./lib/report.ts";

const SEED = 1;

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    data: { type: "string" },
    splits: { type: "string", default: "0" },
    "region-ms": { type: "string" },
    cost: { type: "string" },
    epsilon: { type: "string" },
    delta: { type: "string" },
    risk: { type: "string" },
    method: { type: "string" },
    help: { type: "boolean" },
  },
});
const [model = "intent"] = positionals;
if (values.help === true) {
  console.log(`npm run eval -- <model> [--data samples] [--splits 200] [--epsilon 0.01] [--delta 0.05] [--risk disagreement|accuracy] [--method temperature|isotonic|vector]
    [--region-ms 30] [--cost tier=1,tier=20]

samples: a file with one {"text", "label"} or {"file", "label"} a line, or a folder <label>/<file>. Without it, the model's
validation part is read from the folder EDGETIER_DATA_DIR (../shared/data).`);
  process.exit(0);
}

const source = await readProject(join(MODELS_FOLDER, model));
const project = requireClassification(source.project);
const path = values.data ?? (await DATASET_SPLITS[model]?.validation());
if (path === undefined)
  throw new Error(`${model} has no validation part that is known here: name samples with --data`);
const samples = await readSamples(path, { task: getTask(project.task), limits: project.input });
const progress = createProgressLine();
const tierPredictions = await predictAllTiers(source, project, samples);
const prices = parsePrices(
  values,
  project.tiers.map(({ id }) => id),
  "npm run eval",
);
const { tiers, cascade, latency, cascadeLatency } = evaluateRun(tierPredictions, prices);
const { method, ...bound } = parseRisk(values, "npm run eval", project.risk);
const splits = Number(values.splits);
const resamples =
  splits === 0
    ? undefined
    : validateRiskBound(createCalibrationTiers(tierPredictions, prices), tierPredictions, {
        ...bound,
        method: project.tiers.map(({ calibration }) => method ?? calibrationMethodOf(calibration)),
        deadlineMs: project.deadlineMs,
        splits,
        seed: SEED,
        onProgress: (done) => progress.show("splits", done, splits),
      });
progress.clear();

await writeBenchReport({
  name: `eval-${model}`,
  seed: SEED,
  n: samples.length,
  packages: ["onnxruntime-web", "onnxruntime-node"],
  rows: [
    ...tiers.map(({ id, msPerInput: _mean, ...figures }) => ({
      case: id,
      ...figures,
      ...toLatencies(latency[id]),
    })),
    {
      case: "cascade",
      ...pick(cascade),
      share: 1,
      inScopeShare: 1,
      ...toLatencies(cascadeLatency),
    },
    ...(resamples === undefined
      ? []
      : [
          { case: "calibrated on one half, the other's risk", ...resamples.halves },
          { case: "calibrated on draws, the risk of what they are from", ...resamples.draws },
        ]),
  ],
  figures: {
    ...cascade,
    ...(resamples === undefined
      ? {}
      : {
          epsilon: bound.epsilon,
          delta: bound.delta,
          ...headline(resamples.halves, "halves"),
          ...headline(resamples.draws, "draws"),
        }),
  },
  ...(resamples === undefined ? {} : { notes: [`The risk is of ${bound.what}.`] }),
});

function pick({
  edgeShare: _edge,
  inScopeEdgeShare: _inScope,
  lossPoints: _loss,
  costRatio: _cost,
  meanMs: _mean,
  lastTierMs: _last,
  ...figures
}: typeof cascade) {
  return figures;
}

function headline(
  { heldShare, meanRisk }: RiskValidationSummary,
  of: "halves" | "draws",
): Record<string, number> {
  return { [`${of}HeldShare`]: heldShare, [`${of}MeanRisk`]: meanRisk };
}

function toLatencies(times: typeof cascadeLatency | undefined) {
  return times === undefined ? {} : { p50Ms: times.p50Ms, p95Ms: times.p95Ms, p99Ms: times.p99Ms };
}
