import { describe, expect, it } from "vitest";
import { augmentTexts } from "../../../src/toolchain/distill/augment-texts.ts";

const texts = [
  { text: "what is my balance", label: "balance" },
  { text: "tell me my bank balance please", label: "balance" },
  { text: "book a flight to rome", label: "flight" },
  { text: "i need a flight tomorrow" },
];
const knownWords = new Set(texts.flatMap(({ text }) => text.split(" ")));

describe("augmentTexts", () => {
  it("makes distinct new texts, about as many as requested", () => {
    const augmented = augmentTexts(texts, 20, 1);
    expect(augmented.length).toBeGreaterThan(60);
    expect(augmented.length).toBeLessThanOrEqual(80);
    expect(new Set([...augmented, ...texts.map(({ text }) => text)]).size).toBe(
      augmented.length + texts.length,
    );
  });

  it("depends only on the seed, and extends the texts of fewer copies", () => {
    const augmented = augmentTexts(texts, 5, 1);
    expect(augmentTexts(texts, 10, 1).slice(0, augmented.length)).toEqual(augmented);
    expect(augmentTexts(texts, 5, 2)).not.toEqual(augmented);
  });

  it("drops, swaps, misspells and splices words", () => {
    const augmented = augmentTexts(texts, 200, 1);
    const [swapped, dropped] = ["what is balance my", "what is my"];
    expect(augmented).toContain(swapped);
    expect(augmented).toContain(dropped);
    const words = augmented.flatMap((text) => text.split(" "));
    const misspelled = words.filter((word) => !knownWords.has(word));
    expect(misspelled.length).toBeGreaterThan(0);
    const spliced = augmented.filter((text) => text.includes("book") && text.includes("balance"));
    expect(spliced.length).toBeGreaterThan(0);
    expect(augmented).toEqual(augmented.map((text) => text.trim()));
    expect(augmented).not.toContain("");
  });

  it("replaces words by the given similar words", () => {
    const similarWords = new Map([["rome", ["oslo", "paris"]]]);
    const replaced = augmentTexts(texts, 100, 1, similarWords).filter((text) =>
      /\b(?:oslo|paris)\b/.test(text),
    );
    expect(replaced).toContain("book a flight to oslo");
    expect(replaced).toContain("book a flight to paris");
    expect(augmentTexts(texts, 100, 1).some((text) => text.includes("oslo"))).toBe(false);
  });

  it("returns nothing without texts, words or copies", () => {
    expect(augmentTexts([], 5, 1)).toEqual([]);
    expect(augmentTexts([{ text: "  " }], 5, 1)).toEqual([]);
    expect(augmentTexts(texts, 0, 1)).toEqual([]);
  });
});
