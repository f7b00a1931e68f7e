import { describe, expect, it } from "vitest";
import type { TextInput } from "../../../src/tasks/task.ts";
import { findSimilarWords } from "../../../src/toolchain/distill/similar-words.ts";
import type { Teacher } from "../../../src/toolchain/distill/teacher.ts";

/**
 * Logits by word: towns have a large first logit, fruits a large second one, and function words a
 * large third one.
 */
const LOGITS_BY_WORD: Readonly<Record<string, readonly number[]>> = {
  rome: [9, 1, 5],
  paris: [8, 1, 5],
  oslo: [9, 2, 5],
  apple: [1, 9, 5],
  pear: [1, 8, 5],
  the: [1, 1, 15],
};
const teacher: Teacher<TextInput> = {
  digest: "known",
  outputs: 3,
  encodeInput: ({ text }) => new TextEncoder().encode(text),
  predict: async (inputs) =>
    Float32Array.from(inputs.flatMap(({ text }) => LOGITS_BY_WORD[text] ?? [5, 5, 5])),
};

describe("findSimilarWords", () => {
  it("finds words with similar logits, including words outside the samples", async () => {
    const similarWords = await findSimilarWords(
      teacher,
      ["rome", "apple", "the"],
      ["paris", "oslo", "pear", "rome"],
    );
    expect(new Set(similarWords.get("rome"))).toEqual(new Set(["paris", "oslo"]));
    expect(similarWords.get("apple")).toEqual(["pear"]);
    expect(similarWords.has("the")).toBe(false);
  });

  it("returns at most 8 words, the nearest first", async () => {
    const vocabulary = Array.from({ length: 30 }, (_, index) => `town${index}`);
    const townTeacher: Teacher<TextInput> = {
      ...teacher,
      predict: async (inputs) =>
        Float32Array.from(
          inputs.flatMap(({ text }) =>
            text === "the" ? [0, 9, 0] : [9, Number(text.slice(4) || 0) / 10, 0],
          ),
        ),
    };
    const similarWords = await findSimilarWords(townTeacher, ["town", "the"], vocabulary);
    expect(similarWords.get("town")?.slice(0, 2)).toEqual(["town0", "town1"]);
    expect(similarWords.get("town")?.length).toBe(8);
  });
});
