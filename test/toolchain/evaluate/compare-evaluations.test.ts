// Comparison of two evaluations, and the exact McNemar test.
import { describe, expect, it } from "vitest";
import {
  compareEvaluations,
  mcnemarPValue,
} from "../../../src/toolchain/evaluate/compare-evaluations.ts";
import type { Evaluation } from "../../../src/toolchain/evaluate/evaluate-project.ts";

describe("mcnemarPValue", () => {
  it("is the two-sided p-value of the binomial test", () => {
    expect(mcnemarPValue(0, 0)).toBe(1);
    expect(mcnemarPValue(5, 5)).toBe(1);
    expect(mcnemarPValue(10, 0)).toBeCloseTo(2 / 1024, 12);
    expect(mcnemarPValue(1, 9)).toBeCloseTo(22 / 1024, 12);
    expect(mcnemarPValue(1, 9)).toBe(mcnemarPValue(9, 1));
  });

  it("holds for counts whose binomial coefficients overflow a number", () => {
    expect(mcnemarPValue(2_000, 2_000)).toBe(1);
    // The expected value is the normal approximation with continuity correction: z = 3.146.
    expect(mcnemarPValue(1_900, 2_100)).toBeCloseTo(0.00168, 4);
  });
});

describe("compareEvaluations", () => {
  const evaluation = (answers: readonly string[], p50Ms: number): Evaluation => ({
    model: "m",
    samples: answers.length,
    tiers: [],
    cascade: {
      inScopeAccuracy: 0,
      accuracy: 0,
      expectedCalibrationError: 0,
      edgeShare: 1,
      inScopeEdgeShare: 1,
      lossPoints: 0,
      costRatio: 1,
      meanMs: 1,
      lastTierMs: 1,
    },
    latency: {},
    cascadeLatency: { p50Ms, p95Ms: p50Ms, p99Ms: 2 * p50Ms, n: 1 },
    slo: { kind: "none" },
    confusion: { pairs: [], labels: [] },
    answers,
  });

  it("counts the samples that only one evaluation gets right", () => {
    expect(
      compareEvaluations(evaluation(["a", "b", "a", "x"], 4), evaluation(["a", "a", "b", "b"], 1), [
        "a",
        "a",
        "b",
        "a",
      ]),
    ).toEqual({
      samples: 4,
      gainPoints: 50,
      won: 2,
      lost: 0,
      pValue: 0.5,
      agreement: 0.25,
      p50Ratio: 0.25,
      p99Ratio: 0.25,
    });
  });
});
