// Early exit: the thresholds of the exit rule.
import { describe, expect, it } from "vitest";
import { shouldExit } from "../../src/cascade/early-exit.ts";

const answer = (confidence: number, outOfScope = false) => ({
  label: outOfScope ? "oos" : "a",
  confidence,
  outOfScope,
  ranking: [],
});

describe("shouldExit", () => {
  it("accepts answers from the rule's confidence on", () => {
    const rule = { confidence: 0.7 };
    expect(shouldExit(answer(0.69), rule)).toBe(false);
    expect(shouldExit(answer(0.7), rule)).toBe(true);
    expect(shouldExit(answer(1), rule)).toBe(true);
  });

  it("accepts no answer at confidence 1, not even a certain one", () => {
    expect(shouldExit(answer(1), { confidence: 1 })).toBe(false);
  });

  it("accepts an out-of-scope verdict only from the last tier", () => {
    expect(shouldExit(answer(0.99, true), { confidence: 0.5 })).toBe(false);
    expect(shouldExit(answer(0.99, true), null)).toBe(true);
  });
});
