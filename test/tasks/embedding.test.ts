// Tests the embedding task: its inputs, and the conversion of a graph's outputs to vectors.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { NamedTensors } from "../../src/core/tensor.ts";
import { embeddingTask } from "../../src/tasks/embedding.ts";
import {
  normalizeVector,
  poolVectors,
  truncateVector,
} from "../../src/tasks/text/embedding-vectors.ts";
import { json, tinyTokenizer } from "../fixtures/tiny-tokenizer.ts";

const limits = { maxBytes: 16 };
const [CLS, SEP, GOOD, BAD] = [2, 3, 4, 5];

describe("an input", () => {
  it("is a text or token ids, and round-trips as bytes", () => {
    for (const [raw, input] of [
      ["good", { kind: "text", text: "good" }],
      [[4, 0, 2 ** 31 - 1], { kind: "tokens", ids: [4, 0, 2 ** 31 - 1] }],
    ] as const) {
      expect(embeddingTask.parseInput(raw, 0, limits)).toEqual(input);
      expect(embeddingTask.decodeInput(embeddingTask.encodeInput(input), 0, limits)).toEqual(input);
    }
  });

  it("has a unique identity (property)", () => {
    const input = fc.oneof(
      fc
        .array(fc.constantFrom("text ", "tokens ", "4", ",", "5"), { maxLength: 3 })
        .map((parts) => ({ kind: "text" as const, text: parts.join("") })),
      fc
        .array(fc.constantFrom(4, 5, 45), { minLength: 1, maxLength: 3 })
        .map((ids) => ({ kind: "tokens" as const, ids })),
    );
    fc.assert(
      fc.property(input, input, (a, b) => {
        const hasSameIdentity =
          embeddingTask.computeIdentity(a) === embeddingTask.computeIdentity(b);
        expect(hasSameIdentity).toBe(JSON.stringify(a) === JSON.stringify(b));
      }),
    );
    expect(embeddingTask.computeIdentity({ kind: "text", text: "tokens 4" })).not.toBe(
      embeddingTask.computeIdentity({ kind: "tokens", ids: [4] }),
    );
  });

  const invalidInputs: [raw: unknown, code: string][] = [
    ["", "empty_text"],
    ["\ud800", "invalid_utf8"],
    ["seventeen bytes..", "input_too_large"],
    [[], "empty_text"],
    [[1, 2, 3, 4, 5], "input_too_large"],
    [[-1], "invalid_request"],
    [[2 ** 31], "invalid_request"],
    [["a"], "invalid_request"],
    [{ b64: "" }, "invalid_request"],
  ];
  it.each(invalidInputs)("is rejected if it is %j", (raw, code) => {
    expect(() => embeddingTask.parseInput(raw, 0, limits)).toThrow(
      expect.objectContaining({ code }),
    );
  });

  it("is rejected if its bytes are truncated", () => {
    expect(() => embeddingTask.decodeInput(Uint8Array.of(0xff, 1, 0, 0), 0, limits)).toThrow(
      expect.objectContaining({ code: "invalid_utf8" }),
    );
    expect(() => embeddingTask.decodeInput(Uint8Array.of(0xff), 0, limits)).toThrow(
      expect.objectContaining({ code: "empty_text" }),
    );
  });
});

describe("token ids", () => {
  const { encode } = embeddingTask.createPreprocessor({
    kind: "wordpiece",
    artifact: json(tinyTokenizer),
    maxTokens: 5,
  });
  const encodeIds = (ids: readonly number[]) =>
    Array.from(encode([{ kind: "tokens", ids }])["input_ids"]?.data as BigInt64Array, Number);

  it("get special tokens, unless they already have them", () => {
    expect(encodeIds([GOOD, BAD])).toEqual([CLS, GOOD, BAD, SEP]);
    expect(encodeIds([CLS, GOOD, BAD, SEP])).toEqual([CLS, GOOD, BAD, SEP]);
    expect(encodeIds([CLS, GOOD])).toEqual([CLS, CLS, GOOD, SEP]);
  });

  it("are truncated like a text", () => {
    expect(encodeIds([GOOD, BAD, GOOD, BAD])).toEqual([CLS, GOOD, BAD, GOOD, SEP]);
    expect(encodeIds([CLS, GOOD, BAD, GOOD, BAD, SEP])).toEqual([CLS, GOOD, BAD, GOOD, SEP]);
  });

  it("are rejected if they are not in the vocabulary", () => {
    expect(() => encodeIds([GOOD, 8])).toThrow(
      expect.objectContaining({
        code: "invalid_tokens",
        detail: expect.stringMatching(/\b8\b.*\b0 to 7\b/),
      }),
    );
  });
});

describe("vectors", () => {
  const states = (shape: number[], data: number[]): NamedTensors => ({
    out: { datatype: "FP32", shape, data: Float32Array.from(data) },
  });
  const read = (pooling: "graph" | "mean" | "cls", outputs: NamedTensors, tokens: number[]) =>
    poolVectors(outputs, { output: "out", pooling }, tokens, 2).map((vector) => [...vector]);

  it("are the mean over a text's tokens, the first token's state, or the graph's output", () => {
    const twoTexts = states([2, 3, 2], [1, 2, 3, 4, 99, 99, /**/ 5, 6, 7, 8, 9, 10]);
    expect(read("mean", twoTexts, [2, 3])).toEqual([
      [2, 3],
      [7, 8],
    ]);
    expect(read("cls", twoTexts, [2, 3])).toEqual([
      [1, 2],
      [5, 6],
    ]);
    expect(read("graph", states([2, 2], [1, 2, 3, 4]), [2, 3])).toEqual([
      [1, 2],
      [3, 4],
    ]);
  });

  const invalidOutputs: [
    description: string,
    pooling: "graph" | "mean",
    outputs: NamedTensors,
    tokens: number[],
  ][] = [
    ["too few rows", "graph", states([1, 2], [1, 2]), [3, 3]],
    ["other dimensions", "graph", states([1, 3], [1, 2, 3]), [3]],
    ["fewer tokens than the text has", "mean", states([1, 1, 2], [1, 2]), [2]],
    ["a value that is not a number", "graph", states([1, 2], [1, Number.NaN]), [3]],
  ];
  it.each(invalidOutputs)("are not read from %s", (_description, pooling, outputs, tokens) => {
    expect(() => read(pooling, outputs, tokens)).toThrow(
      expect.objectContaining({ code: "session_failed" }),
    );
  });

  it("keep their direction when they are normalized or truncated", () => {
    expect([...normalizeVector(Float32Array.of(3, 4))]).toEqual([
      Math.fround(0.6),
      Math.fround(0.8),
    ]);
    expect([...normalizeVector(Float32Array.of(0, 0))]).toEqual([0, 0]);
    expect(
      [...truncateVector(Float32Array.of(0.3, 0.4, 0.5), 2, true)].map(
        (value) => Math.round(value * 1e6) / 1e6,
      ),
    ).toEqual([0.6, 0.8]);
    expect([...truncateVector(Float32Array.of(1, 2, 3), 2, false)]).toEqual([1, 2]);
    expect([...truncateVector(Float32Array.of(1, 2), 2, true)]).toEqual([1, 2]); // not truncated, so not rescaled
  });
});
