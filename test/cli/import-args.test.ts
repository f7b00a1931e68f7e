// The options of `model import` that say what only a model's maker knows.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { readTaskChoice } from "../../src/cli/commands/import-args.ts";
import { model } from "../toolchain/onnx/model-builders.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-args-"));
  await writeFile(at("labels.txt"), "cat\nhot dog\n");
  await writeFile(at("tokenizer.json"), "{}");
  await writeFile(at("one.txt"), "cat");
});
afterAll(async () => await rm(folder, { recursive: true }));
const at = (name: string) => join(folder, name);
const NAME = "edgetier model import";
const defaults = { "max-tokens": "128", fit: "stretch" } as const;
const image = model({ inputs: ["x: float [N, 3, 8, 8]"], outputs: ["y: float [N, 2]"], nodes: [] });

it("become a choice, with the task guessed where none is named", async () => {
  const choice = await readTaskChoice(
    {
      ...defaults,
      labels: at("labels.txt"),
      mean: "0.5, 0.4,0.3",
      std: "1,2,3",
      size: "224x160",
      tokenizer: at("tokenizer.json"),
      "max-tokens": "64",
    },
    image,
    NAME,
  );
  expect(choice).toEqual({
    task: "image-classification",
    labels: ["cat", "hot dog"],
    logits: undefined,
    text: { kind: "wordpiece", artifact: new TextEncoder().encode("{}"), maxTokens: 64 },
    image: {
      mean: [0.5, 0.4, 0.3],
      std: [1, 2, 3],
      size: { width: 224, height: 160 },
      fit: "stretch",
    },
    embedding: {},
  });
  const text = await readTaskChoice(
    { ...defaults, task: "text-classification", features: at("tokenizer.json") },
    image,
    NAME,
  );
  expect(text).toMatchObject({
    task: "text-classification",
    labels: undefined,
    text: { kind: "hashed-ngrams" },
    image: { mean: undefined, size: undefined },
  });
});

it.each([
  [{ labels: "none.txt" }, "--labels"],
  [{ labels: "one.txt" }, "neither a JSON array"],
  [{ mean: "1,2" }, "--mean"],
  [{ mean: "1,2,x" }, "--mean"],
  [{ mean: "1,,2" }, "--mean"],
  [{ std: "0,1,1" }, "--std"],
  [{ size: "224" }, "--size"],
  [{ tokenizer: "none.json" }, "--tokenizer"],
  [{ tokenizer: "tokenizer.json", "max-tokens": "0" }, "--max-tokens"],
  [{ tokenizer: "tokenizer.json", features: "tokenizer.json" }, "--features"],
])("are rejected: %j", async (given, problem) => {
  const args = Object.fromEntries(
    Object.entries(given).map(([name, value]) => [
      name,
      /\.(txt|json)$/.test(value) ? at(value) : value,
    ]),
  );
  await expect(readTaskChoice({ ...defaults, ...args }, image, NAME)).rejects.toMatchObject({
    code: "usage",
    detail: expect.stringContaining(problem),
  });
});
