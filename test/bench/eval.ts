// `npm run eval -- intent`: accuracy, out-of-scope recall, calibration and shares by tier, and of the cascade, on
// labelled samples. Every tier answers every sample, one at a time, in the runtime that serves it.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { prepareEngine } from "../../src/build/engine/prepare.ts";
import { cascadeFigures, type TierAnswers } from "../../src/build/evaluate.ts";
import { readProject } from "../../src/build/project.ts";
import { type Answer, readAnswers } from "../../src/cascade/calibration.ts";
import { ENGINE_FOLDER, MODELS_FOLDER } from "../../src/cli/local/paths.ts";
import type { ClassificationProject } from "../../src/registry/manifest.ts";
import type { Runtime } from "../../src/runtime/runtime.ts";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { createWasmRuntime } from "../../src/runtime/wasm/wasm-runtime.ts";
import { taskByName } from "../../src/tasks/tasks.ts";
import { report } from "./lib/report.ts";

/** Under the data folder; one {"text", "label"} a line. */
const VALIDATION_PARTS: Readonly<Record<string, string>> = { intent: "clinc150/val.jsonl" };
const WARM_UP_RUNS = 50;

interface Sample {
  readonly text: string;
  readonly label: string;
}

type TierProject = ClassificationProject["tiers"][number];

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { data: { type: "string" }, help: { type: "boolean" } },
});
const [model = "intent"] = positionals;
if (values.help === true) {
  console.log(`npm run eval -- <model> [--data samples.jsonl]

samples.jsonl holds one {"text": "…", "label": "…"} a line; without it, the model's validation part is read from the
folder EDGETIER_DATA_DIR (../shared/data).`);
  process.exit(0);
}

const dataFile = values.data ?? join(process.env["EDGETIER_DATA_DIR"] ?? "../shared/data", VALIDATION_PARTS[model] ?? "");
const samples = await readSamples(dataFile);
const { project, files } = await readProject(join(MODELS_FOLDER, model));
if (project.task !== "text-classification") throw new Error(`${model} has the task ${project.task}: it gives tensors, and no label to be right or wrong`);
const labels: string[] = JSON.parse(new TextDecoder().decode(fileOf(project.labels)));
const oosLabel = project.tiers.flatMap((tier) => tier.calibration.outOfScope?.label ?? [])[0] ?? "";

const tiers: TierAnswers[] = [];
for (const tier of project.tiers) tiers.push(await answersOf(tier));
const { cascade, tiers: byTier } = cascadeFigures(tiers, samples.map((sample) => sample.label), oosLabel);

await report({
  name: `eval-${model}`,
  seed: 0,
  n: samples.length,
  packages: ["onnxruntime-web", "onnxruntime-node"],
  rows: [
    ...byTier.map(({ id, ...figures }) => ({ case: id, ...figures })),
    { case: "cascade", ...pick(cascade), share: 1, inScopeShare: 1 },
  ],
  figures: { ...cascade },
});

function pick({ inScopeAccuracy, oosRecall, oosPrecision, accuracy, expectedCalibrationError }: typeof cascade) {
  return { inScopeAccuracy, oosRecall, oosPrecision, accuracy, expectedCalibrationError };
}

async function answersOf(tier: TierProject): Promise<TierAnswers> {
  const runtime = tier.place === "edge" ? await wasmRuntime() : createNativeRuntime({ intraOpThreads: 1 });
  const session = await runtime.createSession(fileOf(tier.graph));
  const preprocessor = taskByName(project.task).createPreprocessor({ ...tier.preprocessor, artifact: fileOf(tier.preprocessor.artifact) });
  const answer = async (text: string): Promise<Answer> => {
    const outputs = await session.run(preprocessor.encode([{ kind: "text", text }]));
    return readAnswers(outputs, 1, labels, tier.calibration, 1)[0] as Answer;
  };

  for (const { text } of samples.slice(0, WARM_UP_RUNS)) await answer(text);
  const answers: Answer[] = [];
  const startedAtMs = performance.now();
  for (const { text } of samples) {
    answers.push(await answer(text));
    if (process.stderr.isTTY && answers.length % 100 === 0) process.stderr.write(`\r${tier.id}: ${answers.length} of ${samples.length} `);
  }
  const msPerInput = (performance.now() - startedAtMs) / samples.length;
  if (process.stderr.isTTY) process.stderr.write("\r\u001b[K");
  await session.dispose();
  return { id: tier.id, place: tier.place, exit: tier.exit, answers, msPerInput };
}

/** The Worker's own engine, in Node's V8. */
async function wasmRuntime(): Promise<Runtime> {
  const { sha256 } = await prepareEngine({ outDir: ENGINE_FOLDER });
  const { default: glue } = await import("../../dist/engine/glue.mjs");
  return createWasmRuntime({ kind: "full", source: sha256, glue, wasm: await WebAssembly.compile(await readFile(join(ENGINE_FOLDER, "engine.wasm"))) });
}

function fileOf(path: string): Uint8Array {
  const bytes = files.get(path);
  if (bytes === undefined) throw new Error(`${path} is not a file of the project`);
  return bytes;
}

async function readSamples(file: string): Promise<Sample[]> {
  const text = await readFile(file, "utf8").catch(() => {
    console.error(`${file} cannot be read. Name a file of labelled samples with --data, or the data folder with EDGETIER_DATA_DIR.`);
    process.exit(1);
  });
  return text.split("\n").filter((line) => line !== "").map((line): Sample => JSON.parse(line));
}
