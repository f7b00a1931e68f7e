// Distills a graph on rows of numbers into a smaller one.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { distillTabularTier } from "../../../src/toolchain/distill/distill-tabular-tier.ts";
import type { DistillTabularOptions } from "../../../src/toolchain/distill/distill-tabular.ts";
import { writeInsertedTier } from "../../../src/toolchain/distill/insert-tier.ts";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import { readProject } from "../../../src/toolchain/project.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { encodeModel } from "../../bench/lib/onnx-writer.ts";

const SECONDS = 1000;
const [WIDTH, HIDDEN, OUTPUTS] = [3, 64, 4];
const random = seededRandom(1);
const randomNumbers = (count: number) =>
  Float32Array.from({ length: count }, () => 2 * random() - 1);

/**
 * Creates a random network with far more units than a student has. It expects a second column that
 * is 1000 times larger.
 */
function createTeacher(rows: number | string): Uint8Array {
  const weights = randomNumbers(WIDTH * HIDDEN).map((weight, index) =>
    Math.floor(index / HIDDEN) === 1 ? weight / 1_000 : weight,
  );
  return encodeModel({
    name: "teacher",
    opset: 17,
    inputs: [{ name: "row", datatype: "FP32", shape: [rows, WIDTH] }],
    outputs: [{ name: "answer", datatype: "FP32", shape: [rows, OUTPUTS] }],
    nodes: [
      { op: "Gemm", inputs: ["row", "w1", "b1"], outputs: ["sums"] },
      { op: "Relu", inputs: ["sums"], outputs: ["units"] },
      { op: "MatMul", inputs: ["units", "w2"], outputs: ["answer"] },
    ],
    initializers: {
      w1: { datatype: "FP32", shape: [WIDTH, HIDDEN], data: weights },
      b1: { datatype: "FP32", shape: [HIDDEN], data: randomNumbers(HIDDEN) },
      w2: { datatype: "FP32", shape: [HIDDEN, OUTPUTS], data: randomNumbers(HIDDEN * OUTPUTS) },
    },
  });
}

let folder: string;
async function writeTensorProject(
  name: string,
  graph: Uint8Array,
  inputs = [-1, WIDTH],
): Promise<string> {
  const projectFolder = join(folder, name);
  const tier = {
    id: "large",
    place: "region",
    precision: "fp32",
    graph: "large.onnx",
    inputs: [{ name: "row", datatype: "FP32", shape: inputs }],
    outputs: [{ name: "answer", datatype: "FP32", shape: [-1, OUTPUTS] }],
  };
  await mkdir(projectFolder);
  await writeFile(join(projectFolder, "large.onnx"), graph);
  await writeFile(
    join(projectFolder, "model.json"),
    JSON.stringify({
      schemaVersion: 1,
      model: "rows",
      task: "tensor",
      deadlineMs: 100,
      tiers: [tier],
    }),
  );
  return projectFolder;
}
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-rows-"));
});
afterAll(() => rm(folder, { recursive: true }));

const samples = Array.from({ length: 3_000 }, () => ({
  row: randomNumbers(WIDTH).map((value, column) => (column === 1 ? 1_000 * value : value)),
}));
const newTier = { id: "small", place: "edge", teacher: "large", replace: false } as const;
const options: DistillTabularOptions = {
  seed: 1,
  epochs: 60,
  hidden: 24,
  loss: "cross-entropy",
  temperature: 1,
  alpha: 0.5,
  batchSize: 128,
  learningRate: 0.01,
  dropout: 0,
  int8Epochs: 0,
};
const context = { runner: createNodeRunner(), runtime: createNativeRuntime(), rounds: 1 };

describe("distillTabularTier", () => {
  it("makes a smaller tier with the teacher's input and output, which agrees with it", async () => {
    const projectFolder = await writeTensorProject("logits", createTeacher("batch"));
    const { tier, evaluations, trainingCount, evaluationCount } = await distillTabularTier(
      await readProject(projectFolder),
      newTier,
      samples,
      undefined,
      options,
      context,
    );
    expect(evaluations).toMatchObject([
      { name: "teacher", agreement: 1, rSquared: 1, accuracy: undefined },
      { name: "fp32" },
      { name: "int8" },
    ]);
    const [, fp32, int8] = evaluations;
    expect(fp32?.agreement).toBeGreaterThan(0.95);
    expect(int8?.agreement).toBeGreaterThan(0.93);
    expect(trainingCount + evaluationCount).toBe(samples.length);
    await writeInsertedTier(projectFolder, tier);
    const { project } = await readProject(projectFolder);
    expect(project.tiers).toMatchObject([
      { id: "small", inputs: [{ shape: [-1, WIDTH] }], outputs: [{ name: "answer" }] },
      { id: "large", inputs: [{ shape: [-1, WIDTH] }], outputs: [{ name: "answer" }] },
    ]);
  });

  it("fits a teacher's numbers with the loss `squares`", async () => {
    const projectFolder = await writeTensorProject("numbers", createTeacher(1), [1, WIDTH]);
    const { evaluations, chosen } = await distillTabularTier(
      await readProject(projectFolder),
      newTier,
      samples,
      undefined,
      { ...options, loss: "squares", int8Epochs: 3 },
      context,
    );
    expect(evaluations[1]?.rSquared).toBeGreaterThan(0.97);
    expect(chosen).toMatch(/^int8/);
  });
});

describe("labels of rows", () => {
  it(
    "train the students and determine their accuracy",
    async () => {
      const projectFolder = await writeTensorProject("labels", createTeacher("batch"));
      const labeled = samples.map(({ row }) => ({ row, label: Number((row[0] ?? 0) > 0) }));
      const { evaluations } = await distillTabularTier(
        await readProject(projectFolder),
        newTier,
        labeled,
        labeled.slice(0, 500),
        { ...options, epochs: 20, alpha: 0 },
        context,
      );
      expect(evaluations.map(({ name }) => name)).toEqual([
        "teacher",
        "fp32",
        "int8",
        "labels-fp32",
        "labels-int8",
      ]);
      const [, fp32, , labelsFp32] = evaluations;
      expect(fp32?.accuracy).toBeGreaterThan(0.95);
      expect(labelsFp32?.accuracy).toBeGreaterThan(0.95);
      expect(fp32?.agreement).toBeLessThan(0.9);
    },
    60 * SECONDS,
  );
});

describe("a teacher of another task", () => {
  it("is rejected", async () => {
    const textProject = await readProject(join(import.meta.dirname, "../../../models/intent"));
    await expect(
      distillTabularTier(
        textProject,
        { ...newTier, teacher: "region-int8" },
        samples,
        undefined,
        options,
        context,
      ),
    ).rejects.toMatchObject({ code: "not_distillable" });
  });
});
