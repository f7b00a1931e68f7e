import { describe, expect, it } from "vitest";
import { shouldExit } from "../../src/cascade/early-exit.ts";

const answer = (confidence: number, outOfScope = false) => ({
  label: outOfScope ? "oos" : "a",
  confidence,
  outOfScope,
  ranking: [],
});

describe("shouldExit", () => {
  it("accepts from the rule's confidence on, that one included", () => {
    expect(
      [0.69, 0.7, 1].map((confidence) => shouldExit(answer(confidence), { confidence: 0.7 })),
    ).toEqual([false, true, true]);
  });

  it("accepts no answer at 1, not even one without a doubt", () => {
    expect(shouldExit(answer(1), { confidence: 1 })).toBe(false);
  });

  it("never accepts a verdict that something is out of scope, but from the last tier", () => {
    expect([
      shouldExit(answer(0.99, true), { confidence: 0.5 }),
      shouldExit(answer(0.99, true), null),
    ]).toEqual([false, true]);
  });
});
