// Smoke test cases: one request per sample of the project (samples/samples.jsonl), with the expected answer.

import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { reasonOf } from "../../core/errors.ts";
import { EMBEDDINGS_PATH, embeddingsResponseSchema } from "../../protocol/embeddings.ts";
import { isClassificationProject, type ModelProject } from "../../registry/manifest.ts";
import { getTask } from "../../tasks/tasks.ts";
import { readSamples, type LabeledSample } from "../../toolchain/evaluate/labeled-samples.ts";
import { importErrors } from "../../toolchain/import/errors.ts";
import { cliErrors } from "../errors.ts";
import { type PredictionInput, requestPrediction } from "../predict-client.ts";
import type { EdgeClient } from "./edge-client.ts";

export const SAMPLES_FILE = "samples/samples.jsonl";
/** Maximum number of samples per model; the first ones count. */
const MAX_SAMPLES = 5;
/** Maximum deviation of a tensor's value, relative to the larger of 1 and the expected value. */
const TOLERANCE = 1e-2;

/** One request to a version of a model. */
export interface SmokeTestCase {
  readonly name: string;
  /** Sends the request and checks the answer. @throws smoke_test_failed, edge_unreachable, or the edge's error */
  run(edge: EdgeClient, version: number): Promise<SmokeTestResponse>;
}

export interface SmokeTestResponse {
  /** l1, l2, cdn, miss or bypass. Undefined if answers of this task are not cached. */
  readonly cache: string | undefined;
  readonly degraded: boolean;
}

const numbers = z.array(
  z.object({ name: z.string(), shape: z.array(z.int()), data: z.array(z.number()) }),
);
const tensorLineSchema = z.object({ inputs: numbers.min(1), outputs: numbers.default([]) });
const inferResponseSchema = z.object({ outputs: numbers });

/**
 * Reads a project's cases. Without samples, it returns one case without an expected answer.
 * @param folder the project's folder
 * @throws invalid_samples, invalid_tensor_samples
 */
export async function readSmokeTestCases(
  project: ModelProject,
  folder: string,
): Promise<readonly SmokeTestCase[]> {
  const path = join(folder, SAMPLES_FILE);
  const hasSamples = await stat(path).then(
    () => true,
    () => false,
  );
  if (project.task === "tensor")
    return hasSamples
      ? (await readTensorLines(path)).map((line, index) =>
          createTensorCase(project, line, `sample ${index + 1}`),
        )
      : [];
  const task = getTask(project.task);
  const limits = project.input;
  const samples: readonly (
    | LabeledSample
    | { readonly input: LabeledSample["input"]; readonly label: undefined }
  )[] = hasSamples
    ? (await readSamples(path, { task, limits })).slice(0, MAX_SAMPLES)
    : [{ input: task.exampleInput, label: undefined }];
  return samples.map(({ input, label }, index) => {
    const bytes = task.encodeInput(input);
    const name = label === undefined ? "the example input" : `sample ${index + 1} (${label})`;
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
        `the label is ${JSON.stringify(label)}`,
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
        `the vector has ${vector?.length ?? "no"} dimensions; expected ${dimensions} of model.json`,
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
    const actual = inferResponseSchema.safeParse(body).data?.outputs ?? [];
    for (const expected of outputs) {
      const data = actual.find(({ name: output }) => output === expected.name)?.data;
      const isRight =
        data !== undefined &&
        data.length === expected.data.length &&
        expected.data.every(
          (value, index) =>
            Math.abs(value - (data[index] ?? Number.NaN)) <=
            TOLERANCE * Math.max(1, Math.abs(value)),
        );
      if (!isRight)
        throw cliErrors.smokeTestFailed(
          `${model}@${version}, ${name}`,
          `the output ${expected.name} is ${JSON.stringify(data?.slice(0, 8))}; expected ${JSON.stringify(expected.data.slice(0, 8))}`,
        );
    }
    return { cache: undefined, degraded: false };
  },
});
