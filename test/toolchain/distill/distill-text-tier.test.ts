// A tier of the toy model taught to a student, and put into the project: training, INT8, judgement and model.json as they are.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { DistillTextOptions } from "../../../src/toolchain/distill/distill-text.ts";
import { distillTextTier } from "../../../src/toolchain/distill/distill-text-tier.ts";
import type { DistillProgress } from "../../../src/toolchain/distill/train-students.ts";
import { writeInsertedTier } from "../../../src/toolchain/distill/insert-tier.ts";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import { readProject } from "../../../src/toolchain/project.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { writeToyProject } from "../../support/toy-project.ts";

const SECONDS = 1000;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-distil-"));
  await writeToyProject(folder);
});
afterAll(() => rm(folder, { recursive: true }));

const WORDS = ["yes", "no", "maybe", "other", "never", "always"];
/** Of one and of two words; the teacher knows three of them. */
const texts = [...WORDS, ...WORDS.flatMap((one) => WORDS.map((other) => `${one} ${other}`))];
const samples = texts.map((text) => ({ text }));
const place = { id: "student", place: "edge", teacher: "region", replace: false } as const;
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
const tools = { runner: createNodeRunner(), runtime: createNativeRuntime(), rounds: 1 };
const labelled = ["yes", "no", "maybe", "yes yes", "no no"].map((text) => ({
  input: { kind: "text", text } as const,
  label: text.startsWith("no") ? "no" : "yes",
}));
const validation = [
  ...labelled,
  ...["other", "never", "always"].map((text) => ({
    input: { kind: "text", text } as const,
    label: "oos",
  })),
];

describe("distillTextTier", () => {
  it("teaches the teacher's answers, and makes a tier of the best student in INT8", async () => {
    const source = await readProject(folder);
    const steps = new Set<string>();
    const {
      tier,
      evaluations: judged,
      chosen,
      trainingCount: learnt,
    } = await distillTextTier(source, place, samples, validation, options, {
      ...tools,
      onProgress: ({ step }: Pick<DistillProgress, "done"> & { readonly step: string }) =>
        steps.add(step),
    });
    expect(judged.map(({ name }) => name)).toEqual(["teacher", "fp32", "int8", "int8-aware"]);
    expect(judged.every(({ accuracy }) => accuracy === 1)).toBe(true);
    expect(judged.slice(1).every(({ calibrated }) => calibrated.oosRecall !== undefined)).toBe(
      true,
    );
    expect(judged.find(({ name }) => name === "int8")?.bytes).toBeLessThan(
      judged.find(({ name }) => name === "fp32")?.bytes ?? 0,
    );
    expect(chosen).toMatch(/^int8/);
    expect(learnt).toBe(texts.length);
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

  it(
    "sets one that has learnt the labels alone beside it, where there are labels",
    async () => {
      const source = await readProject(folder);
      const known = samples.map(({ text }, index) =>
        index % 3 === 0 ? { text, label: text.startsWith("no") ? "no" : "yes" } : { text },
      );
      const { evaluations: judged } = await distillTextTier(
        source,
        { ...place, id: "other" },
        known,
        undefined,
        { ...options, epochs: 20, int8Epochs: 0, augmentedCopies: 2 },
        tools,
      );
      expect(judged.map(({ name }) => name)).toEqual([
        "teacher",
        "fp32",
        "int8",
        "labels-fp32",
        "labels-int8",
      ]);
    },
    60 * SECONDS,
  );

  it("makes the same tier of the same seed", async () => {
    const source = await readProject(folder);
    const make = async (seed: number) =>
      (
        await distillTextTier(
          source,
          { ...place, id: "other" },
          samples,
          validation,
          { ...options, seed, epochs: 3, int8Epochs: 1, augmentedCopies: 1 },
          tools,
        )
      ).tier;
    const first = await make(1);
    expect(await make(1)).toEqual(first);
    expect((await make(2)).files).not.toEqual(first.files);
  });

  it.each([
    [
      "a label that the project does not have",
      [{ text: "yes", label: "sure" }],
      'has the label "sure"',
    ],
    ["too few samples to hold some out", [{ text: "yes" }], "none can be held out"],
  ])("refuses %s", async (_, wrong, message) => {
    await expect(
      distillTextTier(
        await readProject(folder),
        { ...place, id: "other" },
        wrong,
        undefined,
        options,
        tools,
      ),
    ).rejects.toMatchObject({ code: "not_distillable", detail: expect.stringContaining(message) });
  });
});
