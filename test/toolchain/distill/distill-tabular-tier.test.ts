// A graph on rows of numbers taught to a smaller one.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { DistillTabularOptions } from "../../../src/toolchain/distill/distill-tabular.ts";
import { distillTabularTier } from "../../../src/toolchain/distill/distill-tabular-tier.ts";
import { writeInsertedTier } from "../../../src/toolchain/distill/insert-tier.ts";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import { readProject } from "../../../src/toolchain/project.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { encodeModel } from "../../bench/lib/onnx-writer.ts";

const SECONDS = 1000;
const [WIDTH, HIDDEN, OUTPUTS] = [3, 64, 4];
const random = seededRandom(1);
const numbers = (count: number, size = 1) =>
  Float32Array.from({ length: count }, () => size * (2 * random() - 1));

/** A random network with far more units than a student gets; its second column is a thousand times the others'. */
function teacher(rows: number | string): Uint8Array {
  const weights = numbers(WIDTH * HIDDEN).map((weight, index) =>
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
      b1: { datatype: "FP32", shape: [HIDDEN], data: numbers(HIDDEN) },
      w2: { datatype: "FP32", shape: [HIDDEN, OUTPUTS], data: numbers(HIDDEN * OUTPUTS) },
    },
  });
}

let folder: string;
async function writeTensorProject(
  name: string,
  graph: Uint8Array,
  inputs = [-1, WIDTH],
): Promise<string> {
  const own = join(folder, name);
  const tier = {
    id: "large",
    place: "region",
    precision: "fp32",
    graph: "large.onnx",
    inputs: [{ name: "row", datatype: "FP32", shape: inputs }],
    outputs: [{ name: "answer", datatype: "FP32", shape: [-1, OUTPUTS] }],
  };
  await mkdir(own);
  await writeFile(join(own, "large.onnx"), graph);
  await writeFile(
    join(own, "model.json"),
    JSON.stringify({
      schemaVersion: 1,
      model: "rows",
      task: "tensor",
      deadlineMs: 100,
      tiers: [tier],
    }),
  );
  return own;
}
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-rows-"));
});
afterAll(() => rm(folder, { recursive: true }));

const samples = Array.from({ length: 3_000 }, () => ({
  row: numbers(WIDTH).map((value, column) => (column === 1 ? 1_000 * value : value)),
}));
const place = { id: "small", place: "edge", teacher: "large", replace: false } as const;
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
const tools = { runner: createNodeRunner(), runtime: createNativeRuntime(), rounds: 1 };

describe("distillTabularTier", () => {
  it("makes a smaller tier that answers as the teacher does, rows in and numbers out", async () => {
    const own = await writeTensorProject("logits", teacher("batch"));
    const {
      tier,
      evaluations: judged,
      trainingCount: learnt,
      evaluationCount: judgedOn,
    } = await distillTabularTier(await readProject(own), place, samples, undefined, options, tools);
    expect(judged.map(({ name }) => name)).toEqual(["teacher", "fp32", "int8"]);
    expect(judged[0]).toMatchObject({ agreement: 1, rSquared: 1, accuracy: undefined });
    expect(judged[1]?.agreement).toBeGreaterThan(0.95);
    expect(judged[2]?.agreement).toBeGreaterThan(0.93);
    expect(learnt + judgedOn).toBe(samples.length);
    await writeInsertedTier(own, tier);
    const { project } = await readProject(own);
    expect(
      project.tiers.map(({ id, inputs, outputs }) => [id, inputs[0]?.shape, outputs[0]?.name]),
    ).toEqual([
      ["small", [-1, WIDTH], "answer"],
      ["large", [-1, WIDTH], "answer"],
    ]);
  });

  it("meets a teacher's numbers with the loss of squares", async () => {
    const own = await writeTensorProject("numbers", teacher(1), [1, WIDTH]);
    const { evaluations: judged, chosen } = await distillTabularTier(
      await readProject(own),
      place,
      samples,
      undefined,
      { ...options, loss: "squares", int8Epochs: 3 },
      tools,
    );
    expect(judged[1]?.rSquared).toBeGreaterThan(0.97);
    expect(chosen).toMatch(/^int8/);
  });

  it(
    "hears labels, and judges by them",
    async () => {
      const own = await writeTensorProject("labels", teacher("batch"));
      const labelOf = (row: Float32Array) => Number((row[0] ?? 0) > 0);
      const known = samples.map(({ row }) => ({ row, label: labelOf(row) }));
      const { evaluations: judged } = await distillTabularTier(
        await readProject(own),
        place,
        known,
        known.slice(0, 500),
        { ...options, epochs: 20, alpha: 0 },
        tools,
      );
      expect(judged.map(({ name }) => name)).toEqual([
        "teacher",
        "fp32",
        "int8",
        "labels-fp32",
        "labels-int8",
      ]);
      expect(judged[1]?.accuracy).toBeGreaterThan(0.95);
      expect(judged[3]?.accuracy).toBeGreaterThan(0.95);
      expect(judged[1]?.agreement).toBeLessThan(0.9);
    },
    60 * SECONDS,
  );

  it("refuses a teacher that takes something else", async () => {
    const text = await readProject(join(import.meta.dirname, "../../../models/intent"));
    await expect(
      distillTabularTier(
        text,
        { ...place, teacher: "region-int8" },
        samples,
        undefined,
        options,
        tools,
      ),
    ).rejects.toMatchObject({ code: "not_distillable" });
  });
});
