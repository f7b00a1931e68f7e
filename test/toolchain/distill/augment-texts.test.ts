import { describe, expect, it } from "vitest";
import { augmentTexts } from "../../../src/toolchain/distill/augment-texts.ts";

const texts = [
  { text: "what is my balance", label: "balance" },
  { text: "tell me my bank balance please", label: "balance" },
  { text: "book a flight to rome", label: "flight" },
  { text: "i need a flight tomorrow" },
];
const words = new Set(texts.flatMap(({ text }) => text.split(" ")));

describe("augmentTexts", () => {
  it("makes texts that are new, each once, and about as many as copies are wanted", () => {
    const made = augmentTexts(texts, 20, 1);
    expect(made.length).toBeGreaterThan(60);
    expect(made.length).toBeLessThanOrEqual(80);
    expect(new Set([...made, ...texts.map(({ text }) => text)]).size).toBe(
      made.length + texts.length,
    );
  });

  it("makes the same of one seed, more of the same with more copies, and others of another seed", () => {
    const made = augmentTexts(texts, 5, 1);
    expect(augmentTexts(texts, 10, 1).slice(0, made.length)).toEqual(made);
    expect(augmentTexts(texts, 5, 2)).not.toEqual(made);
  });

  it("drops, swaps, exchanges, misspells and splices", () => {
    const made = augmentTexts(texts, 200, 1);
    const ofWords = (text: string) => text.split(" ");
    expect(made).toContain("what is balance my"); // swapped
    expect(made).toContain("what is my"); // dropped
    expect(made.some((text) => ofWords(text).some((word) => !words.has(word)))).toBe(true); // misspelt
    expect(made.some((text) => text.includes("book") && text.includes("balance"))).toBe(true); // spliced, or exchanged
    expect(made.every((text) => text.trim() === text && text !== "")).toBe(true);
  });

  it("exchanges words for those that are alike, where it is told of some", () => {
    const alike = new Map([["rome", ["oslo", "paris"]]]);
    const towns = augmentTexts(texts, 100, 1, alike).filter((text) =>
      /\b(?:oslo|paris)\b/.test(text),
    );
    expect(towns).toContain("book a flight to oslo");
    expect(towns).toContain("book a flight to paris");
    expect(augmentTexts(texts, 100, 1).some((text) => text.includes("oslo"))).toBe(false);
  });

  it("makes nothing of no texts, and of no copies", () => {
    expect(augmentTexts([], 5, 1)).toEqual([]);
    expect(augmentTexts([{ text: "  " }], 5, 1)).toEqual([]);
    expect(augmentTexts(texts, 0, 1)).toEqual([]);
  });
});
