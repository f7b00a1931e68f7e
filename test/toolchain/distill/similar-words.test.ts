import { describe, expect, it } from "vitest";
import { findSimilarWords } from "../../../src/toolchain/distill/similar-words.ts";
import type { Teacher } from "../../../src/toolchain/distill/teacher.ts";
import type { TextInput } from "../../../src/tasks/task.ts";

/** Knows towns by its first logit, fruits by the second, and function words by the third. */
const KNOWN: Readonly<Record<string, readonly number[]>> = {
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
    Float32Array.from(inputs.flatMap(({ text }) => KNOWN[text] ?? [5, 5, 5])),
};

describe("findSimilarWords", () => {
  it("finds the words that the teacher answers alike, also such that no sample has", async () => {
    const alike = await findSimilarWords(
      teacher,
      ["rome", "apple", "the"],
      ["paris", "oslo", "pear", "rome"],
    );
    expect(new Set(alike.get("rome"))).toEqual(new Set(["paris", "oslo"]));
    expect(alike.get("apple")).toEqual(["pear"]);
    expect(alike.has("the")).toBe(false);
  });

  it("names the nearest first, and not too many", async () => {
    const others = Array.from({ length: 30 }, (_, index) => `town${index}`);
    const towns: Teacher<TextInput> = {
      ...teacher,
      predict: async (inputs) =>
        Float32Array.from(
          inputs.flatMap(({ text }) =>
            text === "the" ? [0, 9, 0] : [9, Number(text.slice(4) || 0) / 10, 0],
          ),
        ),
    };
    const alike = await findSimilarWords(towns, ["town", "the"], others);
    expect(alike.get("town")?.slice(0, 2)).toEqual(["town0", "town1"]);
    expect(alike.get("town")?.length).toBe(8);
  });
});
