// Toy project: the toy model (toy-model.ts) as a project on disk, with samples.
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { TextClassificationProject } from "../../src/registry/manifest.ts";
import { sampleProject } from "./sample-model.ts";
import { writeSampleProject } from "./write-sample-project.ts";

type Tier = TextClassificationProject["tiers"][number];

const tier: Tier = {
  id: "edge",
  place: "edge",
  precision: "fp32",
  graph: "artifacts/toy.onnx",
  preprocessor: { kind: "hashed-ngrams", artifact: "artifacts/features.json" },
  inputs: [{ name: "ids", datatype: "INT32", shape: [-1, -1] }],
  outputs: [{ name: "logits", datatype: "FP32", shape: [-1, 2] }],
  calibration: {
    temperature: 1,
    outOfScope: { label: "oos", score: { kind: "maxLogit" }, threshold: 0.2, scale: 10 },
  },
  exit: { confidence: 0.9 },
  figures: {},
};

/** Two tiers of one graph: "yes" and "no" are confident answers, "maybe" is an uncertain yes, anything else is out of scope. */
export const toyProject: TextClassificationProject = {
  ...sampleProject,
  model: "toy",
  labels: "labels.json",
  tiers: [tier, { ...tier, id: "region", place: "region", exit: null }],
};

export async function readToyFiles(): Promise<Map<string, Uint8Array>> {
  const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  return new Map([
    ["artifacts/toy.onnx", await readFile(join(import.meta.dirname, "../fixtures/toy.onnx"))],
    [
      "artifacts/features.json",
      json({
        kind: "hashed-ngrams",
        buckets: 64,
        wordNgrams: [1],
        charNgrams: [],
        maxFeatures: 16,
      }),
    ],
    ["labels.json", json(["yes", "no"])],
  ]);
}

export const writeToyProject = async (
  folder: string,
  changes: Partial<TextClassificationProject> = {},
): Promise<void> =>
  await writeSampleProject(folder, { ...toyProject, ...changes }, await readToyFiles());

/** Formats texts and labels as a sample file. */
export async function writeSamples(
  file: string,
  samples: readonly (readonly [text: string, label: string])[],
): Promise<string> {
  await writeFile(file, samples.map(([text, label]) => JSON.stringify({ text, label })).join("\n"));
  return file;
}
