// Tests the text task: its inputs, and the tensors of its preprocessors.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { PreprocessorConfig, TaskInput } from "../../src/tasks/task.ts";
import { getTask } from "../../src/tasks/tasks.ts";
import { createNgramHasher } from "../../src/tasks/text/hashed-ngrams.ts";
import { json, tinyTokenizer } from "../fixtures/tiny-tokenizer.ts";

const task = getTask("text-classification");
const limits = { maxBytes: 16 };
const textInputs = (...texts: string[]): TaskInput[] =>
  texts.map((text) => ({ kind: "text", text }));

describe("an input", () => {
  it.each(["a", "exactly 16 bytes", "日本語です", "a\0b", " .", "\u{feff}x", "👨‍👩"])(
    "is accepted: %j",
    (text) => {
      const input = task.parseInput(text, 0, limits);
      expect(input).toEqual({ kind: "text", text });
      expect(task.decodeInput(task.encodeInput(input), 0, limits)).toEqual(input);
    },
  );

  const invalidInputs: [raw: unknown, code: string, detail: RegExp][] = [
    ["", "empty_text", /Input 3/],
    [" \t\n\u{a0}\u{3000}", "empty_text", /Input 3/],
    ["\0\u{7f}\u{200b}\u{feff}", "empty_text", /Input 3/],
    ["seventeen bytes..", "input_too_large", /Input 3.*\b17\b.*\b16\b/],
    ["日本語です。", "input_too_large", /\b18\b/],
    ["a\u{d800}b", "invalid_utf8", /Input 3/],
    ["\u{de00}", "invalid_utf8", /Input 3/],
    [null, "invalid_request", /`inputs\[3\]` is null/],
    [undefined, "invalid_request", /`inputs\[3\]` is undefined/],
    [1, "invalid_request", /`inputs\[3\]` is a number/],
    [["a"], "invalid_request", /`inputs\[3\]` is an array/],
    [{ b64: "YQ==" }, "invalid_request", /`inputs\[3\]` is an image/],
  ];
  it.each(invalidInputs)("is rejected: %j", (raw, code, detail) => {
    expect(() => task.parseInput(raw, 3, limits)).toThrow(
      expect.objectContaining({ code, detail: expect.stringMatching(detail) }),
    );
  });

  it("is rejected as bytes for the same reasons, and if the bytes are not UTF-8", () => {
    const tryToDecode = (bytes: Uint8Array) => {
      try {
        return task.decodeInput(bytes, 0, limits);
      } catch (error) {
        return error;
      }
    };
    expect(tryToDecode(Uint8Array.of(0xff))).toMatchObject({ code: "invalid_utf8" });
    expect(tryToDecode(Uint8Array.of(0xed, 0xa0, 0x80))).toMatchObject({ code: "invalid_utf8" }); // an encoded surrogate
    expect(tryToDecode(new Uint8Array())).toMatchObject({ code: "empty_text" });
    expect(tryToDecode(new Uint8Array(17).fill(97))).toMatchObject({ code: "input_too_large" });
  });

  it("has the same result as a text and as bytes (property)", () => {
    const outcome = (parse: () => TaskInput) => {
      try {
        return parse();
      } catch (error) {
        return Object(error).code;
      }
    };
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 20 }), (text) => {
        const direct = outcome(() => task.parseInput(text, 0, limits));
        fc.pre(direct !== "invalid_utf8"); // a lone surrogate has no bytes
        expect(outcome(() => task.decodeInput(new TextEncoder().encode(text), 0, limits))).toEqual(
          direct,
        );
      }),
    );
  });
});

describe("the text task", () => {
  it("does not answer to inherited property names", () => {
    expect(() => getTask("toString")).toThrow(
      expect.objectContaining({ code: "invalid_configuration" }),
    );
  });

  it("has an example input that passes its own checks", () => {
    expect(task.decodeInput(task.encodeInput(task.exampleInput), 0, { maxBytes: 1 })).toEqual(
      task.exampleInput,
    );
  });
});

describe("hashed n-grams", () => {
  const config = {
    kind: "hashed-ngrams",
    buckets: 1000,
    wordNgrams: [1, 2],
    charNgrams: [3],
    maxFeatures: 50,
  } as const;

  it("give ids [batch, features], padded with 0 to the longest row", () => {
    const preprocessor = task.createPreprocessor({ kind: "hashed-ngrams", artifact: json(config) });
    const hashNgrams = createNgramHasher(config);
    const [long, short] = [hashNgrams("pay my bill now"), hashNgrams("pay")];
    expect(short.length).toBeLessThan(long.length);
    expect(preprocessor.encode(textInputs("pay my bill now", "pay"))).toEqual({
      ids: {
        datatype: "INT32",
        shape: [2, long.length],
        data: Int32Array.of(...long, ...short, ...Array(long.length - short.length).fill(0)),
      },
    });
  });
});

const encode = (maxTokens: number, ...texts: string[]) =>
  task
    .createPreprocessor({ kind: "wordpiece", artifact: json(tinyTokenizer), maxTokens })
    .encode(textInputs(...texts));
const tensors = (width: number, ids: number[], mask: number[]) => ({
  input_ids: {
    datatype: "INT64",
    shape: [ids.length / width, width],
    data: BigInt64Array.from(ids, BigInt),
  },
  attention_mask: {
    datatype: "INT64",
    shape: [ids.length / width, width],
    data: BigInt64Array.from(mask, BigInt),
  },
});

describe("WordPiece", () => {
  it("gives input_ids and attention_mask [batch, tokens], padded to the longest row", () => {
    expect(encode(16, "Great good greatly", "BAD")).toEqual(
      tensors(
        6,
        [2, 6, 4, 6, 7, 3, /**/ 2, 5, 3, 0, 0, 0],
        [1, 1, 1, 1, 1, 1, /**/ 1, 1, 1, 0, 0, 0],
      ),
    );
  });

  it("truncates a long text, and keeps [CLS] and [SEP]", () => {
    expect(encode(5, "good bad great good bad")).toEqual(
      tensors(5, [2, 4, 5, 6, 3], [1, 1, 1, 1, 1]),
    );
    expect(encode(5, "good bad great")).toEqual(tensors(5, [2, 4, 5, 6, 3], [1, 1, 1, 1, 1]));
    expect(encode(2, "good bad")).toEqual(tensors(2, [2, 3], [1, 1]));
  });

  it("reads only the needed prefix of a long text, or all of it if words give no tokens", () => {
    expect(encode(4, "good bad great good bad great")).toEqual(
      tensors(4, [2, 4, 5, 3], [1, 1, 1, 1]),
    );
    expect(encode(4, "\u{7f} \u{7f} \u{7f} \u{7f} \u{7f} good bad great")).toEqual(
      tensors(4, [2, 4, 5, 3], [1, 1, 1, 1]),
    );
    expect(encode(4, "\u{7f} \u{7f} \u{7f} \u{7f} \u{7f} good")).toEqual(
      tensors(3, [2, 4, 3], [1, 1, 1]),
    );
  });

  it("truncates a text like the tokens of the whole text, for any word separators (property)", () => {
    const word = fc.constantFrom(
      "good",
      "bad",
      "greatly",
      "zzz",
      "日",
      "e\u{301}",
      "\u{7f}",
      "\u{feff}",
      " ",
      "\n",
      "\u{a0}",
      "\u{3000}",
      ".",
    );
    const encodeIds = (maxTokens: number, text: string) =>
      Array.from(encode(maxTokens, text)["input_ids"]?.data as BigInt64Array);
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 30 }), (words) => {
        const whole = encodeIds(8192, words.join(""));
        expect(encodeIds(5, words.join(""))).toEqual(
          whole.length <= 5 ? whole : [...whole.slice(0, 4), 3n],
        );
      }),
    );
  });

  it("gives [UNK] for unknown words, and drops control characters", () => {
    expect(encode(16, "go\0od zzz 日")).toEqual(tensors(5, [2, 4, 1, 1, 3], [1, 1, 1, 1, 1]));
  });
});

describe("an artifact that does not match its kind", () => {
  const model = (changes: object) =>
    json({ ...tinyTokenizer, model: { ...tinyTokenizer.model, ...changes } });
  const cases: [description: string, config: PreprocessorConfig][] = [
    ["not JSON", { kind: "hashed-ngrams", artifact: new TextEncoder().encode("{") }],
    ["not UTF-8", { kind: "wordpiece", artifact: Uint8Array.of(0xff), maxTokens: 8 }],
    ["another kind's", { kind: "hashed-ngrams", artifact: json(tinyTokenizer) }],
    [
      "no buckets",
      {
        kind: "hashed-ngrams",
        artifact: json({ kind: "hashed-ngrams", wordNgrams: [1], charNgrams: [], maxFeatures: 5 }),
      },
    ],
    [
      "descending lengths",
      {
        kind: "hashed-ngrams",
        artifact: json({
          kind: "hashed-ngrams",
          buckets: 9,
          wordNgrams: [1],
          charNgrams: [4, 3],
          maxFeatures: 5,
        }),
      },
    ],
    [
      "another tokenizer model",
      { kind: "wordpiece", artifact: model({ type: "BPE" }), maxTokens: 8 },
    ],
    [
      "a fraction as id",
      { kind: "wordpiece", artifact: model({ vocab: { a: 0.5 } }), maxTokens: 8 },
    ],
    ["no [UNK]", { kind: "wordpiece", artifact: model({ unk_token: "<unk>" }), maxTokens: 8 }],
    [
      "an unknown normalizer",
      {
        kind: "wordpiece",
        artifact: json({ ...tinyTokenizer, normalizer: { type: "Nope" } }),
        maxTokens: 8,
      },
    ],
  ];
  it.each(cases)("is rejected: %s", (_description, config) => {
    expect(() => task.createPreprocessor(config)).toThrow(
      expect.objectContaining({ code: "preprocessor_invalid" }),
    );
  });
});
