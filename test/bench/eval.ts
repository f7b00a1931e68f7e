// `npm run eval -- intent`: accuracy, out-of-scope recall, calibration, shares and latency by tier, and of the cascade, on
// labelled samples. As `edgetier model eval`, on the validation part by default, with the result kept.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { evaluateProject } from "../../src/build/judge/evaluate-project.ts";
import { classificationOf } from "../../src/build/judge/project-tier.ts";
import { readSamples } from "../../src/build/judge/samples.ts";
import { readProject } from "../../src/build/project.ts";
import { createProgressLine, withRunners } from "../../src/cli/judging.ts";
import { MODELS_FOLDER } from "../../src/cli/local/paths.ts";
import { taskByName } from "../../src/tasks/tasks.ts";
import { report } from "./lib/report.ts";
import { SAMPLE_PARTS } from "./lib/sample-parts.ts";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { data: { type: "string" }, help: { type: "boolean" } },
});
const [model = "intent"] = positionals;
if (values.help === true) {
  console.log(`npm run eval -- <model> [--data samples]

samples: a file with one {"text", "label"} or {"file", "label"} a line, or a folder <label>/<file>. Without it, the model's
validation part is read from the folder EDGETIER_DATA_DIR (../shared/data).`);
  process.exit(0);
}

const source = await readProject(join(MODELS_FOLDER, model));
const project = classificationOf(source.project);
const path = values.data ?? (await SAMPLE_PARTS[model]?.validation());
if (path === undefined) throw new Error(`${model} has no validation part that is known here: name samples with --data`);
const samples = await readSamples(path, { task: taskByName(project.task), limits: project.input });
const progress = createProgressLine();
const { tiers, cascade, latency, cascadeLatency } = await withRunners(({ edge, region }) =>
  evaluateProject(source, project, samples, { runners: { edge, region }, onProgress: ({ tier, done, of }) => progress.show(tier, done, of) }),
);
progress.clear();

await report({
  name: `eval-${model}`,
  seed: 0,
  n: samples.length,
  packages: ["onnxruntime-web", "onnxruntime-node"],
  rows: [
    ...tiers.map(({ id, msPerInput: _mean, ...figures }) => ({ case: id, ...figures, ...timesOf(latency[id]) })),
    { case: "cascade", ...pick(cascade), share: 1, inScopeShare: 1, ...timesOf(cascadeLatency) },
  ],
  figures: { ...cascade },
});

function pick({ edgeShare: _edge, inScopeEdgeShare: _inScope, lossPoints: _loss, costRatio: _cost, ...figures }: typeof cascade) {
  return figures;
}

function timesOf(times: typeof cascadeLatency | undefined) {
  return times === undefined ? {} : { p50Ms: times.p50Ms, p95Ms: times.p95Ms, p99Ms: times.p99Ms };
}
