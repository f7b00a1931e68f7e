import { describe, expect, it } from "vitest";
import { selectExitThreshold } from "../../../src/toolchain/calibrate/exit-threshold.ts";

const row = (...logits: number[]) => Float32Array.from(logits);

describe("selectExitThreshold", () => {
  /** Two confident right answers, a less confident wrong answer, and an unconfident right one. */
  const rows = [
    { label: 0, logits: row(9, 0) },
    { label: 0, logits: row(8, 0) },
    { label: 1, logits: row(3, 0) },
    { label: 1, logits: row(0, 1) },
  ];
  const perfect = [row(1, 0), row(1, 0), row(0, 1), row(0, 1)];

  it("has the largest coverage that the bound allows", () => {
    expect(selectExitThreshold(rows, 1, perfect, 0)).toMatchObject({
      coverage: 0.5,
      lossPoints: -0,
    });
    expect(selectExitThreshold(rows, 1, perfect, 25)).toMatchObject({
      coverage: 1,
      lossPoints: 25,
    });
  });

  it("counts answers that are right where the next tier is wrong", () => {
    const alwaysWrong = rows.map(({ label }) => (label === 0 ? row(0, 1) : row(1, 0)));
    expect(selectExitThreshold(rows, 1, alwaysWrong, 0)).toMatchObject({
      coverage: 1,
      lossPoints: -75,
    });
  });

  it("returns a confidence that every counted sample reaches", () => {
    const { confidence } = selectExitThreshold(rows, 1, perfect, 0);
    const secondConfidence = 1 / (1 + Math.exp(-8));
    expect(confidence).toBeLessThanOrEqual(secondConfidence);
    expect(confidence).toBeGreaterThan(1 / (1 + Math.exp(-3)));
  });

  it("accepts nothing if the most confident answers exceed the bound", () => {
    expect(selectExitThreshold([{ label: 1, logits: row(5, 0) }], 1, [row(0, 5)], 0)).toEqual({
      confidence: 1,
      coverage: 0,
      lossPoints: 0,
    });
  });
});
