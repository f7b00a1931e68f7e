// Distills a tier of the toy model and inserts the student into the project, with real training,
// quantization and evaluation.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { distillTextTier } from "../../../src/toolchain/distill/distill-text-tier.ts";
import type { DistillTextOptions } from "../../../src/toolchain/distill/distill-text.ts";
import { writeInsertedTier } from "../../../src/toolchain/distill/insert-tier.ts";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import { readProject } from "../../../src/toolchain/project.ts";
import { writeToyProject } from "../../support/toy-project.ts";

const SECONDS = 1000;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-distill-"));
  await writeToyProject(folder);
});
afterAll(() => rm(folder, { recursive: true }));

const WORDS = ["yes", "no", "maybe", "other", "never", "always"];
/** Texts of one and two words; the teacher knows three of the words. */
const texts = [...WORDS, ...WORDS.flatMap((first) => WORDS.map((second) => `${first} ${second}`))];
const samples = texts.map((text) => ({ text }));
const newTier = { id: "student", place: "edge", teacher: "region", replace: false } as const;
const options: DistillTextOptions = {
  seed: 1,
  epochs: 300,
  hidden: 16,
  temperature: 1,
  alpha: 0.5,
  batchSize: 16,
  learningRate: 0.02,
  dropout: 0,
  int8Epochs: 20,
  features: {
    kind: "hashed-ngrams",
    buckets: 256,
    wordNgrams: [1],
    charNgrams: [],
    maxFeatures: 16,
  },
  embeddingDims: 8,
  featureDropout: 0,
  augmentedCopies: 0,
};
const context = { runner: createNodeRunner(), runtime: createNativeRuntime(), rounds: 1 };
const labeledSamples = ["yes", "no", "maybe", "yes yes", "no no"].map((text) => ({
  input: { kind: "text", text } as const,
  label: text.startsWith("no") ? "no" : "yes",
}));
const validation = [
  ...labeledSamples,
  ...["other", "never", "always"].map((text) => ({
    input: { kind: "text", text } as const,
    label: "oos",
  })),
];

describe("distillTextTier", () => {
  it("trains on the teacher's answers, and makes a tier of the best INT8 student", async () => {
    const source = await readProject(folder);
    const steps = new Set<string>();
    const { tier, evaluations, chosen, trainingCount } = await distillTextTier(
      source,
      newTier,
      samples,
      validation,
      options,
      { ...context, onProgress: ({ step }) => steps.add(step) },
    );
    const calibrated = { oosRecall: expect.any(Number) };
    expect(evaluations).toMatchObject([
      { name: "teacher", accuracy: 1 },
      { name: "fp32", accuracy: 1, calibrated },
      { name: "int8", accuracy: 1, calibrated },
      { name: "int8-aware", accuracy: 1, calibrated },
    ]);
    const [, fp32, int8] = evaluations;
    expect(int8?.bytes).toBeLessThan(fp32?.bytes ?? 0);
    expect(chosen).toMatch(/^int8/);
    expect(trainingCount).toBe(texts.length);
    expect(steps).toEqual(new Set(["teacher", "student", "int8-fine-tuning", "judge"]));

    await writeInsertedTier(folder, tier);
    const { project, files } = await readProject(folder);
    expect(project.tiers.map(({ id }) => id)).toEqual(["edge", "student", "region"]);
    expect(project.tiers[1]).toMatchObject({
      place: "edge",
      precision: "int8",
      figures: { inScopeAccuracyWithoutOutOfScope: 1 },
      exit: { confidence: expect.any(Number) },
    });
    expect(files.get("artifacts/student.onnx")).toEqual(tier.files.get("artifacts/student.onnx"));
    expect(
      JSON.parse(await readFile(join(folder, "artifacts/student-features.json"), "utf8")),
    ).toEqual(options.features);
  });
});

describe("distillTextTier with labels", () => {
  it(
    "also trains baselines on the labels alone",
    async () => {
      const source = await readProject(folder);
      const partlyLabeled = samples.map(({ text }, index) =>
        index % 3 === 0 ? { text, label: text.startsWith("no") ? "no" : "yes" } : { text },
      );
      const { evaluations } = await distillTextTier(
        source,
        { ...newTier, id: "other" },
        partlyLabeled,
        undefined,
        { ...options, epochs: 20, int8Epochs: 0, augmentedCopies: 2 },
        context,
      );
      expect(evaluations.map(({ name }) => name)).toEqual([
        "teacher",
        "fp32",
        "int8",
        "labels-fp32",
        "labels-int8",
      ]);
    },
    60 * SECONDS,
  );
});

describe("the seed of a distillation", () => {
  it("determines the tier", async () => {
    const source = await readProject(folder);
    const distill = async (seed: number) =>
      (
        await distillTextTier(
          source,
          { ...newTier, id: "other" },
          samples,
          validation,
          { ...options, seed, epochs: 3, int8Epochs: 1, augmentedCopies: 1 },
          context,
        )
      ).tier;
    const first = await distill(1);
    expect(await distill(1)).toEqual(first);
    expect((await distill(2)).files).not.toEqual(first.files);
  });
});

describe("invalid samples of a distillation", () => {
  it.each([
    ["a label that the project does not have", [{ text: "yes", label: "sure" }], /"sure"/],
    ["too few samples to hold some out", [{ text: "yes" }], /\b1\b/],
  ])("are rejected: %s", async (_, invalidSamples, value) => {
    await expect(
      distillTextTier(
        await readProject(folder),
        { ...newTier, id: "other" },
        invalidSamples,
        undefined,
        options,
        context,
      ),
    ).rejects.toMatchObject({ code: "not_distillable", detail: expect.stringMatching(value) });
  });
});
