// Tests the import of sentence encoders as `embedding` projects: the output with the vector, and
// its pooling.
import { describe, expect, it } from "vitest";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import { inferTask, type TaskOptions } from "../../../src/toolchain/import/adapt-to-task.ts";
import { importModel } from "../../../src/toolchain/import/import-model.ts";
import { createImportSamples } from "../../../src/toolchain/import/import-samples.ts";
import { makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import { json, tinyTokenizer } from "../../fixtures/tiny-tokenizer.ts";
import { floatTensor, intListAttribute, model, node } from "../onnx/model-builders.ts";

const region = createNodeRunner();
const text = { kind: "wordpiece", artifact: json(tinyTokenizer), maxTokens: 8 } as const;

/**
 * Builds an encoder of three dimensions. The output `states` is [N, L, 3]; the others are [N, 3].
 */
function sentenceEncoder(...outputs: string[]) {
  const shapes: Record<string, string> = { states: "float [N, L, 3]" };
  return model({
    opset: 17,
    inputs: [
      "input_ids: int64 [N, L]",
      "attention_mask: int64 [N, L]",
      "token_type_ids: int64 [N, L]",
    ],
    outputs: outputs.map((name) => `${name}: ${shapes[name] ?? "float [N, 3]"}`),
    constants: [
      floatTensor(
        "table",
        Array.from({ length: 24 }, (_, index) => index),
        [8, 3],
      ),
    ],
    nodes: [
      node("Mul input_ids attention_mask -> read"),
      node("Add read token_type_ids -> ids"),
      node("Gather table ids -> states"),
      ...outputs
        .filter((name) => name !== "states")
        .map((name) =>
          node(`ReduceMax states -> ${name}`, [
            intListAttribute("axes", [1]),
            makeIntAttribute("keepdims", 0),
          ]),
        ),
    ],
  });
}

const runImport = async (
  encoder: ReturnType<typeof sentenceEncoder>,
  options: Omit<TaskOptions, "task">,
) =>
  await importModel(
    {
      model: encoder,
      file: "encoder.onnx",
      sha256: "0".repeat(64),
      name: "encoder",
      task: { task: "embedding", ...options },
      place: "region",
      deadlineMs: 500,
    },
    {
      region,
      openEdge: () => Promise.reject(new Error("the edge must not be opened")),
      sessionBudgetBytes: 1,
      loadSamples: createImportSamples(undefined).load,
    },
  );

describe("an encoder", () => {
  it("with one vector per token is imported with the given pooling", async () => {
    const { project, files, notes, missing } = await runImport(sentenceEncoder("states"), {
      text,
      embedding: { pooling: "mean" },
    });
    expect(project).toMatchObject({
      task: "embedding",
      dimensions: 3,
      normalize: true,
      tiers: [
        {
          id: "region-fp32",
          place: "region",
          pooling: "mean",
          output: "states",
          preprocessor: { kind: "wordpiece", artifact: "artifacts/tokenizer.json", maxTokens: 8 },
        },
      ],
    });
    expect(project.tiers[0]?.inputs.map(({ name }) => name)).toEqual([
      "input_ids",
      "attention_mask",
    ]);
    expect([...files.keys()]).toEqual(["artifacts/model.onnx", "artifacts/tokenizer.json"]);
    expect(notes).toEqual([expect.stringContaining("token_type_ids")]);
    expect(missing).toHaveLength(2);
  });
});

describe("an encoder", () => {
  it("is rejected if its output, pooling or tokenizer is unknown", async () => {
    await expect(runImport(sentenceEncoder("states"), { text })).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringContaining('"states"'),
      remedy: expect.stringMatching(/--pooling mean .*--pooling cls/),
    });
    await expect(
      runImport(sentenceEncoder("states"), {
        text,
        embedding: { output: "pooler", pooling: "cls" },
      }),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringContaining('"pooler"'),
      remedy: expect.stringMatching(/--output.*--pooling/),
    });
    await expect(
      runImport(sentenceEncoder("states"), { text, embedding: { pooling: "graph" } }),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringMatching(/\bnone\b.*\bpooling graph\b/),
    });
    await expect(
      runImport(sentenceEncoder("states"), { embedding: { pooling: "mean" } }),
    ).rejects.toMatchObject({
      code: "not_importable",
      remedy: expect.stringMatching(/--tokenizer\.$/),
    });
  });

  it("is recognized by the name of its output", () => {
    expect(
      ["sentence_embedding", "states", "logits"].map((name) => inferTask(sentenceEncoder(name))),
    ).toEqual(["embedding", "tensor", "text-classification"]);
  });
});
