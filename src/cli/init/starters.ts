// Starters: creates small placeholder models for new projects, each with its files and samples that it classifies correctly.

import { textClassificationTask } from "../../tasks/text-classification.ts";
import { GraphBuilder } from "../../toolchain/distill/graph-builder.ts";
import {
  buildEmbeddingBagGraph,
  buildTabularGraph,
} from "../../toolchain/distill/student-graph.ts";
import { serializeModel } from "../../toolchain/onnx/model-file.ts";
import { makeIntAttribute } from "../../toolchain/onnx/nodes.ts";
import { seededRandom } from "../../toolchain/seeded-random.ts";
import { createNoisePng } from "../doctor/noise-png.ts";
import { COLORS, LABELED_TEXTS, SENTENCES } from "./starter-data.ts";

export const INIT_TASKS = [
  "text-classification",
  "image-classification",
  "embedding",
  "tensor",
] as const;
export type InitTask = (typeof INIT_TASKS)[number];

export interface Starter {
  /** Predicate of a sentence about the model, such as `scores a payment by amount`. */
  readonly description: string;
  /** Contents by path in the project. The ONNX file is recipe/starter.onnx. */
  readonly files: ReadonlyMap<string, string | Uint8Array>;
  /** Options for `model import`, with paths relative to the project's folder. */
  readonly importOptions: readonly string[];
}

export const STARTER_MODEL = "recipe/starter.onnx";
const SEED = 1;

export function createStarter(task: InitTask): Starter {
  switch (task) {
    case "text-classification":
      return createTextStarter();
    case "image-classification":
      return createImageStarter();
    case "embedding":
      return createEmbeddingStarter();
    case "tensor":
      return createTensorStarter();
  }
}

const lines = (values: readonly object[]): string =>
  values.map((value) => `${JSON.stringify(value)}\n`).join("");

const BUCKETS = 2_048;
const EPOCHS = 200;
const LEARNING_RATE = 0.5;

/** Trains a multinomial logistic regression on hashed words of a few texts. */
function createTextStarter(): Starter {
  const labels = Object.keys(LABELED_TEXTS);
  const samples = labels.flatMap((label) =>
    (LABELED_TEXTS[label] ?? []).map((text) => ({ text, label })),
  );
  const features = JSON.stringify({
    kind: "hashed-ngrams",
    buckets: BUCKETS,
    wordNgrams: [1, 2],
    charNgrams: [3],
    maxFeatures: 256,
  });
  const encoder = textClassificationTask.createPreprocessor(
    { kind: "hashed-ngrams", artifact: new TextEncoder().encode(features) },
    {},
  );
  const rows = samples.map(({ text, label }) => ({
    ids: toIds(encoder.encode([{ kind: "text", text }])["ids"]?.data),
    target: labels.indexOf(label),
  }));
  const width = labels.length;
  const table = new Float32Array((BUCKETS + 1) * width);
  for (let epoch = 0; epoch < EPOCHS; epoch++) {
    for (const { ids, target } of rows) {
      const scale = 1 / Math.sqrt(Math.max(1, ids.length));
      const scores = labels.map(
        (_, label) => scale * ids.reduce((sum, id) => sum + (table[id * width + label] ?? 0), 0),
      );
      const exponentials = scores.map((score) => Math.exp(score - Math.max(...scores)));
      const total = exponentials.reduce((sum, value) => sum + value, 0);
      exponentials.forEach((value, label) => {
        const step = LEARNING_RATE * scale * ((label === target ? 1 : 0) - value / total);
        for (const id of ids) table[id * width + label] = (table[id * width + label] ?? 0) + step;
      });
    }
  }
  const identity = Float32Array.from({ length: width * width }, (_, index) =>
    index % (width + 1) === 0 ? 1 : 0,
  );
  const graph = buildEmbeddingBagGraph(
    table,
    width,
    [{ inputs: width, outputs: width, weights: identity, bias: new Float32Array(width) }],
    "logits",
  );
  return {
    description: `classifies messages to a help desk as ${labels.join(", ")}`,
    files: new Map<string, string | Uint8Array>([
      [STARTER_MODEL, serializeModel(graph)],
      ["recipe/features.json", `${features}\n`],
      ["recipe/labels.txt", `${labels.join("\n")}\n`],
      ["samples/samples.jsonl", lines(samples)],
    ]),
    importOptions: ["--labels", "recipe/labels.txt", "--features", "recipe/features.json"],
  };
}

/** Drops the id 0, which is padding. */
const toIds = (data: unknown): number[] =>
  data instanceof Int32Array ? [...data].filter((id) => id > 0) : [];

const SIDE = 32;
const GAIN = 8;

/** Builds a graph with logits = 8 x the mean of each channel, which is from -1 to 1. */
function createImageStarter(): Starter {
  const labels = Object.keys(COLORS);
  const graph = new GraphBuilder("colors");
  const means = graph.addNode("means", "GlobalAveragePool", ["pixels"]);
  graph.addNode("logits", "Mul", [
    graph.addNode("flat", "Flatten", [means]),
    graph.addConstant("gain", "float", [], Float32Array.of(GAIN)),
  ]);
  const model = graph.build(
    [{ name: "pixels", datatype: "FP32", shape: ["batch", 3, SIDE, SIDE] }],
    [{ name: "logits", datatype: "FP32", shape: ["batch", labels.length] }],
  );
  const images = Object.entries(COLORS).map(([label, color]) => {
    let channel = 0;
    return [label, createNoisePng(64, 48, () => (color[channel++ % 3] ?? 0) / 256)] as const;
  });
  return {
    description: `classifies images as mostly ${labels.join(", ")}`,
    files: new Map<string, string | Uint8Array>([
      [STARTER_MODEL, serializeModel(model)],
      ["recipe/labels.txt", `${labels.join("\n")}\n`],
      ...images.map(([label, png]) => [`samples/${label}.png`, png] as const),
      ["samples/samples.jsonl", lines(images.map(([label]) => ({ file: `${label}.png`, label })))],
    ]),
    importOptions: [
      "--labels",
      "recipe/labels.txt",
      "--mean",
      "0.5,0.5,0.5",
      "--std",
      "0.5,0.5,0.5",
    ],
  };
}

const DIMENSIONS = 32;
const SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"];

/** Builds a graph that averages random word vectors, so that texts with shared words are near each other. */
function createEmbeddingStarter(): Starter {
  const words = [
    ...new Set(
      SENTENCES.flatMap((sentence) => sentence.split(/\W+/).filter((word) => word !== "")),
    ),
  ].toSorted();
  const vocabulary = [...SPECIAL_TOKENS, ...words];
  const random = seededRandom(SEED);
  const table = Float32Array.from({ length: vocabulary.length * DIMENSIONS }, (_, index) =>
    index < SPECIAL_TOKENS.length * DIMENSIONS ? 0 : random() * 2 - 1,
  ).map((value, index) => (index >= DIMENSIONS && index < 2 * DIMENSIONS ? 0.01 : value));
  const graph = new GraphBuilder("words");
  const axis = graph.addConstant("tokens_axis", "int64", [1], BigInt64Array.of(1n));
  const vectors = graph.addNode("vectors", "Gather", [
    graph.addConstant("table", "float", [vocabulary.length, DIMENSIONS], table),
    "input_ids",
  ]);
  const mask = graph.addNode("mask", "Unsqueeze", [
    graph.addNode("present", "Cast", ["attention_mask"], [makeIntAttribute("to", 1)]),
    graph.addConstant("last_axis", "int64", [1], BigInt64Array.of(2n)),
  ]);
  const total = graph.addNode(
    "total",
    "ReduceSum",
    [graph.addNode("masked", "Mul", [vectors, mask]), axis],
    [makeIntAttribute("keepdims", 0)],
  );
  graph.addNode("sentence_embedding", "Div", [
    total,
    graph.addNode("count", "ReduceSum", [mask, axis], [makeIntAttribute("keepdims", 0)]),
  ]);
  const tokens = (name: string) => ({
    name,
    datatype: "INT64" as const,
    shape: ["batch", "tokens"],
  });
  const model = graph.build(
    [tokens("input_ids"), tokens("attention_mask")],
    [{ name: "sentence_embedding", datatype: "FP32", shape: ["batch", DIMENSIONS] }],
  );
  return {
    description: "embeds short texts, so that texts with shared words are near each other",
    files: new Map<string, string | Uint8Array>([
      [STARTER_MODEL, serializeModel(model)],
      ["recipe/tokenizer.json", `${JSON.stringify(createTokenizer(vocabulary))}\n`],
      ["samples/samples.jsonl", lines(SENTENCES.map((text) => ({ text, label: "" })))],
    ]),
    importOptions: ["--tokenizer", "recipe/tokenizer.json"],
  };
}

/** Creates a WordPiece tokenizer of whole words, in the format of Hugging Face tokenizers. */
function createTokenizer(vocabulary: readonly string[]): object {
  const idOf = (token: string) => vocabulary.indexOf(token);
  const special = (id: string) => ({ id, ids: [idOf(id)], tokens: [id] });
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: SPECIAL_TOKENS.map((content) => ({
      id: idOf(content),
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: {
      type: "BertNormalizer",
      clean_text: true,
      handle_chinese_chars: true,
      strip_accents: null,
      lowercase: true,
    },
    pre_tokenizer: { type: "BertPreTokenizer" },
    post_processor: {
      type: "TemplateProcessing",
      single: [
        { SpecialToken: { id: "[CLS]", type_id: 0 } },
        { Sequence: { id: "A", type_id: 0 } },
        { SpecialToken: { id: "[SEP]", type_id: 0 } },
      ],
      pair: [],
      special_tokens: { "[CLS]": special("[CLS]"), "[SEP]": special("[SEP]") },
    },
    decoder: { type: "WordPiece", prefix: "##", cleanup: true },
    model: {
      type: "WordPiece",
      unk_token: "[UNK]",
      continuing_subword_prefix: "##",
      max_input_chars_per_word: 100,
      vocab: Object.fromEntries(vocabulary.map((token, id) => [token, id])),
    },
  };
}

/** Builds one linear layer on four standardized columns, which scores the risk of a payment. */
function createTensorStarter(): Starter {
  const normalization = {
    mean: Float32Array.of(80, 12, 3, 0.2),
    stdDev: Float32Array.of(120, 7, 4, 0.4),
  };
  const weights = Float32Array.of(1.2, 0.1, 0.6, 0.9);
  const graph = buildTabularGraph(
    normalization,
    [{ inputs: 4, outputs: 1, weights, bias: Float32Array.of(-1) }],
    "payment",
    "score",
  );
  const rows = [
    [80, 12, 3, 0],
    [900, 3, 14, 1],
  ];
  const score = (row: readonly number[]) =>
    row.reduce(
      (sum, value, column) =>
        sum +
        ((value - (normalization.mean[column] ?? 0)) / (normalization.stdDev[column] ?? 1)) *
          (weights[column] ?? 0),
      -1,
    );
  const samples = rows.map((row) => ({
    inputs: [{ name: "payment", shape: [1, 4], data: row }],
    outputs: [{ name: "score", shape: [1, 1], data: [Math.round(score(row) * 1e4) / 1e4] }],
  }));
  return {
    description: "scores a payment by amount, hour, attempts and whether the card is new",
    files: new Map<string, string | Uint8Array>([
      [STARTER_MODEL, serializeModel(graph)],
      ["samples/samples.jsonl", lines(samples)],
    ]),
    importOptions: [],
  };
}
