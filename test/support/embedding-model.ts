// Embedding model: maps words of the tiny tokenizer to vectors of four numbers. Each token is a row of a table. No imports
// from Node: suites in workerd use it too.
import { modelProjectSchema } from "../../src/registry/manifest.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import { publishModel, type PublishSource } from "../../src/registry/publish.ts";
import { int, encodeModel } from "../bench/lib/onnx-writer.ts";
import { json, tinyTokenizer } from "../fixtures/tiny-tokenizer.ts";

export const DIMENSIONS = 4;
export const MAX_TOKENS_PER_TEXT = 8;
export const MAX_TEXT_BYTES = 100;
/** Vectors by token id: [PAD] (which must not contribute), [UNK], [CLS], [SEP], good, bad, great, ##ly. */
const TABLE = [
  [99, 99, 99, 99],
  [0, 0, 0, 0],
  [1, 0, 0, 0],
  [0, 1, 0, 0],
  [3, 3, 0, 0],
  [0, -3, 4, 0],
  [6, 0, 0, 8],
  [0, 0, 0, 1],
];

/** `states` is [batch, tokens, 4]; `sums`, their sum over all tokens of a row, is [batch, 4], for a text alone as good as pooled. */
function graph(): Uint8Array {
  return encodeModel({
    name: "vectors",
    opset: 13,
    inputs: [
      { name: "input_ids", datatype: "INT64", shape: ["rows", "tokens"] },
      { name: "attention_mask", datatype: "INT64", shape: ["rows", "tokens"] },
    ],
    outputs: [
      { name: "states", datatype: "FP32", shape: ["rows", "tokens", DIMENSIONS] },
      { name: "sums", datatype: "FP32", shape: ["rows", DIMENSIONS] },
    ],
    nodes: [
      { op: "Gather", inputs: ["table", "input_ids"], outputs: ["states"] },
      {
        op: "ReduceSum",
        inputs: ["states", "axis"],
        outputs: ["sums"],
        attributes: { keepdims: int(0) },
      },
    ],
    initializers: {
      table: {
        datatype: "FP32",
        shape: [TABLE.length, DIMENSIONS],
        data: Float32Array.from(TABLE.flat()),
      },
      axis: { datatype: "INT64", shape: [1], data: BigInt64Array.of(1n) },
    },
  });
}

export interface EmbeddingModelOptions {
  readonly model?: string;
  readonly pooling?: "mean" | "cls" | "graph";
  readonly places?: readonly ("edge" | "region")[];
  readonly normalize?: boolean;
  readonly deadlineMs?: number;
}

/** Project of the model; each tier is named after its place. */
export function embeddingProject({
  model = "vectors",
  pooling = "mean",
  places = ["edge"],
  normalize = true,
  deadlineMs = 1_000,
}: EmbeddingModelOptions = {}): PublishSource {
  const tiers = places.map((place) => ({
    id: place,
    place,
    precision: "fp32",
    graph: "graph.onnx",
    preprocessor: {
      kind: "wordpiece",
      artifact: "tokenizer.json",
      maxTokens: MAX_TOKENS_PER_TEXT,
    },
    pooling,
    output: pooling === "graph" ? "sums" : "states",
    inputs: ["input_ids", "attention_mask"].map((name) => ({
      name,
      datatype: "INT64",
      shape: [-1, -1],
    })),
    outputs: [
      { name: "states", datatype: "FP32", shape: [-1, -1, DIMENSIONS] },
      { name: "sums", datatype: "FP32", shape: [-1, DIMENSIONS] },
    ],
  }));
  const project = modelProjectSchema.parse({
    schemaVersion: 1,
    model,
    task: "embedding",
    input: { maxBytes: MAX_TEXT_BYTES },
    dimensions: DIMENSIONS,
    normalize,
    deadlineMs,
    tiers,
  });
  return {
    project,
    files: new Map([
      ["graph.onnx", graph()],
      ["tokenizer.json", json(tinyTokenizer)],
    ]),
  };
}

/** Publishes the model; a new model gets version 1. */
export async function publishEmbeddingModel(
  store: ModelStore,
  options: EmbeddingModelOptions = {},
): Promise<void> {
  await publishModel(store, embeddingProject(options));
}

/** Scales to a unit vector. */
export function unit(...numbers: readonly number[]): number[] {
  const length = Math.hypot(...numbers);
  return numbers.map((value) => value / length);
}
