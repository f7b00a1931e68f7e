// What a deployed model is tried with: the project's own samples, under samples/samples.jsonl, with what it should answer.

import { importErrors } from "../../toolchain/import/errors.ts";
import { cliErrors } from "../errors.ts";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { readSamples, type LabeledSample } from "../../toolchain/evaluate/labeled-samples.ts";
import { reasonOf } from "../../core/errors.ts";
import { EMBEDDINGS_PATH, embeddingsResponseSchema } from "../../protocol/embeddings.ts";
import { isClassificationProject, type ModelProject } from "../../registry/manifest.ts";
import { getTask } from "../../tasks/tasks.ts";
import { type PredictionInput, requestPrediction } from "../predict-client.ts";
import type { EdgeClient } from "./edge-client.ts";

export const SAMPLES_FILE = "samples/samples.jsonl";
/** Of each model, the first ones. */
const MAX_SAMPLES = 5;
/** Between what a tensor should be and what it is, relative to the larger of 1 and what it should be. */
const TOLERANCE = 1e-2;

/** One request for a version of a model. */
export interface SmokeTestCase {
  readonly name: string;
  /** @returns what was noteworthy about a right answer @throws smoke_test_failed, edge_refused, edge_unreachable */
  run(edge: EdgeClient, version: number): Promise<SmokeTestResponse>;
}

export interface SmokeTestResponse {
  /** l1, l2, cdn, miss or bypass; undefined where this task's answers are not kept. */
  readonly cache: string | undefined;
  readonly degraded: boolean;
}

const numbers = z.array(
  z.object({ name: z.string(), shape: z.array(z.int()), data: z.array(z.number()) }),
);
const tensorLineSchema = z.object({ inputs: numbers.min(1), outputs: numbers.default([]) });
const inferResponseSchema = z.object({ outputs: numbers });

/** @param folder of the project @returns one without an expected answer where it has no samples @throws invalid_samples */
export async function readSmokeTestCases(
  project: ModelProject,
  folder: string,
): Promise<readonly SmokeTestCase[]> {
  const path = join(folder, SAMPLES_FILE);
  const isThere = await stat(path).then(
    () => true,
    () => false,
  );
  if (project.task === "tensor")
    return isThere
      ? (await readTensorLines(path)).map((line, index) =>
          createTensorCase(project, line, `sample ${index + 1}`),
        )
      : [];
  const task = getTask(project.task);
  const limits = project.input;
  const samples: readonly (
    | LabeledSample
    | { readonly input: LabeledSample["input"]; readonly label: undefined }
  )[] = isThere
    ? (await readSamples(path, { task, limits })).slice(0, MAX_SAMPLES)
    : [{ input: task.exampleInput, label: undefined }];
  return samples.map(({ input, label }, index) => {
    const bytes = task.encodeInput(input);
    const name = label === undefined ? "a made-up input" : `sample ${index + 1} (${label})`;
    if (isClassificationProject(project))
      return createLabelCase(
        project.model,
        name,
        project.task === "image-classification"
          ? { file: new Uint8Array(bytes) }
          : { text: new TextDecoder().decode(bytes) },
        label,
      );
    return createVectorCase(
      project.model,
      name,
      new TextDecoder().decode(bytes),
      project.dimensions,
    );
  });
}

async function readTensorLines(path: string): Promise<z.output<typeof tensorLineSchema>[]> {
  try {
    return (await readFile(path, "utf8"))
      .split("\n")
      .filter((line) => line.trim() !== "")
      .slice(0, MAX_SAMPLES)
      .map((line) => tensorLineSchema.parse(JSON.parse(line)));
  } catch (error) {
    throw importErrors.invalidTensorSamples(path, reasonOf(error));
  }
}

const createLabelCase = (
  model: string,
  name: string,
  input: PredictionInput,
  expected: string | undefined,
): SmokeTestCase => ({
  name,
  async run(edge, version) {
    const { label, cache, degraded } = await requestPrediction(
      edge.url,
      `${model}@${version}`,
      input,
      edge,
    );
    if (expected !== undefined && label !== expected)
      throw cliErrors.smokeTestFailed(
        `${model}@${version}, ${name}`,
        `it answers ${JSON.stringify(label)}`,
      );
    return { cache, degraded };
  },
});

const createVectorCase = (
  model: string,
  name: string,
  text: string,
  dimensions: number,
): SmokeTestCase => ({
  name,
  async run(edge, version) {
    const { body, headers } = await edge.post(EMBEDDINGS_PATH, {
      model: `${model}@${version}`,
      input: text,
      encoding_format: "float",
    });
    const vector = embeddingsResponseSchema.safeParse(body).data?.data[0]?.embedding;
    if (vector?.length !== dimensions)
      throw cliErrors.smokeTestFailed(
        `${model}@${version}, ${name}`,
        `its vector has not the ${dimensions} dimensions that model.json says`,
      );
    return { cache: headers.get("x-edgetier-cache") ?? undefined, degraded: false };
  },
});

const createTensorCase = (
  { model, tiers }: ModelProject,
  { inputs, outputs }: z.output<typeof tensorLineSchema>,
  name: string,
): SmokeTestCase => ({
  name,
  async run(edge, version) {
    const datatypes = new Map(tiers[0]?.inputs.map((input) => [input.name, input.datatype]));
    const { body } = await edge.post(`/v2/models/${model}/versions/${version}/infer`, {
      inputs: inputs.map((input) => ({ ...input, datatype: datatypes.get(input.name) })),
    });
    const answered = inferResponseSchema.safeParse(body).data?.outputs ?? [];
    for (const wanted of outputs) {
      const got = answered.find((one) => one.name === wanted.name)?.data;
      const isRight =
        got !== undefined &&
        got.length === wanted.data.length &&
        wanted.data.every(
          (value, index) =>
            Math.abs(value - (got[index] ?? Number.NaN)) <=
            TOLERANCE * Math.max(1, Math.abs(value)),
        );
      if (!isRight)
        throw cliErrors.smokeTestFailed(
          `${model}@${version}, ${name}`,
          `its output ${wanted.name} is ${JSON.stringify(got?.slice(0, 8))}, and should be ${JSON.stringify(wanted.data.slice(0, 8))}`,
        );
    }
    return { cache: undefined, degraded: false };
  },
});
