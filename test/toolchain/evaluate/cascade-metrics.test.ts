// Cascade metrics: accuracy, shares and costs of tiers and cascade on hand-computed samples.
import { describe, expect, it } from "vitest";
import {
  computeCascadeMetrics,
  computeExpectedCalibrationError,
  type TierAnswers,
} from "../../../src/toolchain/evaluate/cascade-metrics.ts";

const answer = (label: string, confidence: number) => ({
  label,
  confidence,
  outOfScope: label === "oos",
  ranking: [],
});
const truth = ["a", "b", "a", "b", "oos"];
const edge: TierAnswers = {
  id: "edge",
  place: "edge",
  exit: { confidence: 0.8 },
  msPerInput: 1,
  answers: [
    answer("a", 0.9),
    answer("a", 0.85),
    answer("a", 0.5),
    answer("b", 0.4),
    answer("oos", 0.99),
  ],
};
const region: TierAnswers = {
  id: "region",
  place: "region",
  exit: null,
  msPerInput: 10,
  answers: [answer("a", 1), answer("b", 1), answer("b", 0.6), answer("b", 1), answer("oos", 0.7)],
};

const { tiers, cascade } = computeCascadeMetrics([edge, region], truth, "oos");

describe("computeCascadeMetrics", () => {
  it("scores each tier on all samples", () => {
    expect(tiers[0]).toMatchObject({
      inScopeAccuracy: 0.75,
      oosRecall: 1,
      oosPrecision: 1,
      accuracy: 0.8,
    });
    expect(tiers[1]).toMatchObject({
      inScopeAccuracy: 0.75,
      oosRecall: 1,
      share: 0.6,
      inScopeShare: 0.5,
    });
  });

  it("scores the cascade by the answers that the exit rule selects", () => {
    // The edge answers samples 0 and 1 (one wrong); the region answers 2 (wrong), 3, and the out-of-scope one.
    expect(cascade).toMatchObject({
      inScopeAccuracy: 0.5,
      oosRecall: 1,
      accuracy: 0.6,
      edgeShare: 0.4,
      inScopeEdgeShare: 0.5,
    });
    expect(cascade.lossPoints).toBeCloseTo(25);
    expect(cascade.costRatio).toBeCloseTo(10 / (1 + 0.6 * 10));
  });

  it("rejects tiers that did not answer every sample", () => {
    expect(() => computeCascadeMetrics([{ ...region, answers: [] }], truth, "oos")).toThrow(
      RangeError,
    );
  });
});

describe("computeCascadeMetrics with optional facts", () => {
  it("uses given costs and network times", () => {
    const { cascade: priced } = computeCascadeMetrics(
      [
        { ...edge, cost: 1 },
        { ...region, cost: 50, networkMs: 20 },
      ],
      truth,
      "oos",
    );
    expect(priced.costRatio).toBeCloseTo(50 / (1 + 0.6 * 50));
    expect(priced.meanMs).toBeCloseTo(1 + 0.6 * 30);
    expect(priced.lastTierMs).toBe(30);
  });

  it("reports the uncalibrated calibration error if uncalibrated answers are given", () => {
    const { tiers: compared } = computeCascadeMetrics(
      [
        {
          ...edge,
          uncalibrated: edge.answers.map((calibrated) => ({ ...calibrated, confidence: 1 })),
        },
        region,
      ],
      truth,
      "oos",
    );
    expect(compared[0]?.expectedCalibrationErrorBefore).toBeCloseTo(0.25); // Three of four in-scope answers are right.
    expect(compared[1]).not.toHaveProperty("expectedCalibrationErrorBefore");
  });

  it("has no out-of-scope figures if every sample is in scope", () => {
    const all = ["a", "b", "a", "b", "b"];
    const { cascade: without } = computeCascadeMetrics([edge, region], all, undefined);
    expect(without).toMatchObject({ accuracy: 0.4, inScopeAccuracy: 0.4 });
    expect(without).not.toHaveProperty("oosRecall");
    expect(without).not.toHaveProperty("oosPrecision");
  });
});

describe("computeExpectedCalibrationError", () => {
  it("is the distance between confidence and accuracy", () => {
    expect(computeExpectedCalibrationError([0.5, 0.5], [true, false])).toBe(0);
    expect(computeExpectedCalibrationError([0.9, 0.9, 0.1], [false, true, false])).toBeCloseTo(
      (0.8 + 0.1) / 3,
    );
  });
});
