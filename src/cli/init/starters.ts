// Small models that stand in for a user's own until there is one: each an ONNX file with what goes with it, and samples that
// it answers rightly.

import { noisePng } from "../doctor/sample-images.ts";
import { GraphBuilder } from "../../toolchain/distil/graph-builder.ts";
import { bagGraph, tabularGraph } from "../../toolchain/distil/student-graph.ts";
import { writeModel } from "../../toolchain/onnx/model-file.ts";
import { intAttribute } from "../../toolchain/onnx/nodes.ts";
import { seededRandom } from "../../toolchain/seeded-random.ts";
import { textClassification } from "../../tasks/text-classification.ts";
import { COLOURS, LABELLED_TEXTS, SENTENCES } from "./texts.ts";

export const INIT_TASKS = [
  "text-classification",
  "image-classification",
  "embedding",
  "tensor",
] as const;
export type InitTask = (typeof INIT_TASKS)[number];

export interface Starter {
  /** What it does, as a sentence. */
  readonly about: string;
  /** By their paths in the project; the ONNX file is recipe/starter.onnx. */
  readonly files: ReadonlyMap<string, string | Uint8Array>;
  /** For `model import`, with paths from the project's folder. */
  readonly importOptions: readonly string[];
}

export const STARTER_MODEL = "recipe/starter.onnx";
const SEED = 1;

export function makeStarter(task: InitTask): Starter {
  switch (task) {
    case "text-classification":
      return textStarter();
    case "image-classification":
      return imageStarter();
    case "embedding":
      return embeddingStarter();
    case "tensor":
      return tensorStarter();
  }
}

const lines = (values: readonly object[]): string =>
  values.map((value) => `${JSON.stringify(value)}\n`).join("");

const BUCKETS = 2_048;
const EPOCHS = 200;
const LEARNING_RATE = 0.5;

/** Multinomial logistic regression on hashed words, trained here on a few texts. */
function textStarter(): Starter {
  const labels = Object.keys(LABELLED_TEXTS);
  const samples = labels.flatMap((label) =>
    (LABELLED_TEXTS[label] ?? []).map((text) => ({ text, label })),
  );
  const features = JSON.stringify({
    kind: "hashed-ngrams",
    buckets: BUCKETS,
    wordNgrams: [1, 2],
    charNgrams: [3],
    maxFeatures: 256,
  });
  const encoder = textClassification.createPreprocessor(
    { kind: "hashed-ngrams", artifact: new TextEncoder().encode(features) },
    {},
  );
  const rows = samples.map(({ text, label }) => ({
    ids: idsIn(encoder.encode([{ kind: "text", text }])["ids"]?.data),
    target: labels.indexOf(label),
  }));
  const width = labels.length;
  const table = new Float32Array((BUCKETS + 1) * width);
  for (let epoch = 0; epoch < EPOCHS; epoch++) {
    for (const { ids, target } of rows) {
      const scale = 1 / Math.sqrt(Math.max(1, ids.length));
      const scores = labels.map(
        (_, one) => scale * ids.reduce((sum, id) => sum + (table[id * width + one] ?? 0), 0),
      );
      const exponentials = scores.map((score) => Math.exp(score - Math.max(...scores)));
      const total = exponentials.reduce((sum, value) => sum + value, 0);
      exponentials.forEach((value, one) => {
        const step = LEARNING_RATE * scale * ((one === target ? 1 : 0) - value / total);
        for (const id of ids) table[id * width + one] = (table[id * width + one] ?? 0) + step;
      });
    }
  }
  const identity = Float32Array.from({ length: width * width }, (_, at) =>
    at % (width + 1) === 0 ? 1 : 0,
  );
  const graph = bagGraph(
    table,
    width,
    [{ inputs: width, outputs: width, weights: identity, bias: new Float32Array(width) }],
    "logits",
  );
  return {
    about: `tells ${labels.join(", ")} apart, in messages to a help desk`,
    files: new Map<string, string | Uint8Array>([
      [STARTER_MODEL, writeModel(graph)],
      ["recipe/features.json", `${features}\n`],
      ["recipe/labels.txt", `${labels.join("\n")}\n`],
      ["samples/samples.jsonl", lines(samples)],
    ]),
    importOptions: ["--labels", "recipe/labels.txt", "--features", "recipe/features.json"],
  };
}

/** Ids from 1 on: 0 is padding's. */
const idsIn = (data: unknown): number[] =>
  data instanceof Int32Array ? [...data].filter((id) => id > 0) : [];

const SIDE = 32;
const GAIN = 8;

/** logits = 8 x the mean of each channel, which is from -1 to 1. */
function imageStarter(): Starter {
  const labels = Object.keys(COLOURS);
  const graph = new GraphBuilder("colours");
  const means = graph.add("means", "GlobalAveragePool", ["pixels"]);
  graph.add("logits", "Mul", [
    graph.add("flat", "Flatten", [means]),
    graph.constant("gain", "float", [], Float32Array.of(GAIN)),
  ]);
  const model = graph.model(
    [{ name: "pixels", datatype: "FP32", shape: ["batch", 3, SIDE, SIDE] }],
    [{ name: "logits", datatype: "FP32", shape: ["batch", labels.length] }],
  );
  const images = Object.entries(COLOURS).map(([label, colour]) => {
    let at = 0;
    return [label, noisePng(64, 48, () => (colour[at++ % 3] ?? 0) / 256)] as const;
  });
  return {
    about: `tells whether an image is mostly ${labels.join(", ")}`,
    files: new Map<string, string | Uint8Array>([
      [STARTER_MODEL, writeModel(model)],
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
const SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"];

/** The mean of random vectors of the words: texts that share words are near each other. */
function embeddingStarter(): Starter {
  const words = [
    ...new Set(
      SENTENCES.flatMap((sentence) => sentence.split(/\W+/).filter((word) => word !== "")),
    ),
  ].toSorted();
  const vocabulary = [...SPECIAL, ...words];
  const random = seededRandom(SEED);
  const table = Float32Array.from({ length: vocabulary.length * DIMENSIONS }, (_, at) =>
    at < SPECIAL.length * DIMENSIONS ? 0 : random() * 2 - 1,
  ).map((value, at) => (at >= DIMENSIONS && at < 2 * DIMENSIONS ? 0.01 : value));
  const graph = new GraphBuilder("words");
  const axis = graph.constant("tokens_axis", "int64", [1], BigInt64Array.of(1n));
  const vectors = graph.add("vectors", "Gather", [
    graph.constant("table", "float", [vocabulary.length, DIMENSIONS], table),
    "input_ids",
  ]);
  const mask = graph.add("mask", "Unsqueeze", [
    graph.add("present", "Cast", ["attention_mask"], [intAttribute("to", 1)]),
    graph.constant("last_axis", "int64", [1], BigInt64Array.of(2n)),
  ]);
  const total = graph.add(
    "total",
    "ReduceSum",
    [graph.add("masked", "Mul", [vectors, mask]), axis],
    [intAttribute("keepdims", 0)],
  );
  graph.add("sentence_embedding", "Div", [
    total,
    graph.add("count", "ReduceSum", [mask, axis], [intAttribute("keepdims", 0)]),
  ]);
  const tokens = (name: string) => ({
    name,
    datatype: "INT64" as const,
    shape: ["batch", "tokens"],
  });
  const model = graph.model(
    [tokens("input_ids"), tokens("attention_mask")],
    [{ name: "sentence_embedding", datatype: "FP32", shape: ["batch", DIMENSIONS] }],
  );
  return {
    about: "makes vectors of short texts, near each other where they share words",
    files: new Map<string, string | Uint8Array>([
      [STARTER_MODEL, writeModel(model)],
      ["recipe/tokenizer.json", `${JSON.stringify(tokenizerOf(vocabulary))}\n`],
      ["samples/samples.jsonl", lines(SENTENCES.map((text) => ({ text, label: "" })))],
    ]),
    importOptions: ["--tokenizer", "recipe/tokenizer.json"],
  };
}

/** WordPiece of whole words, in the form of Hugging Face's tokenizers. */
function tokenizerOf(vocabulary: readonly string[]): object {
  const idOf = (token: string) => vocabulary.indexOf(token);
  const special = (id: string) => ({ id, ids: [idOf(id)], tokens: [id] });
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: SPECIAL.map((content) => ({
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

/** One linear layer on four standardised columns: a risk of a payment. */
function tensorStarter(): Starter {
  const standard = {
    mean: Float32Array.of(80, 12, 3, 0.2),
    deviation: Float32Array.of(120, 7, 4, 0.4),
  };
  const weights = Float32Array.of(1.2, 0.1, 0.6, 0.9);
  const graph = tabularGraph(
    standard,
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
      (sum, value, at) =>
        sum +
        ((value - (standard.mean[at] ?? 0)) / (standard.deviation[at] ?? 1)) * (weights[at] ?? 0),
      -1,
    );
  const samples = rows.map((row) => ({
    inputs: [{ name: "payment", shape: [1, 4], data: row }],
    outputs: [{ name: "score", shape: [1, 1], data: [Math.round(score(row) * 1e4) / 1e4] }],
  }));
  return {
    about: "scores a payment by amount, hour, attempts and whether the card is new",
    files: new Map<string, string | Uint8Array>([
      [STARTER_MODEL, writeModel(graph)],
      ["samples/samples.jsonl", lines(samples)],
    ]),
    importOptions: [],
  };
}
