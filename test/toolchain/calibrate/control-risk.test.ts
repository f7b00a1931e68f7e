import { describe, expect, it } from "vitest";
import { controlRisk, findAttainableBound } from "../../../src/toolchain/calibrate/control-risk.ts";
import type { RiskKind } from "../../../src/toolchain/calibrate/p-values.ts";
import {
  simulateCascade,
  type Thresholds,
} from "../../../src/toolchain/calibrate/simulate-cascade.ts";
import { buildThresholdPath } from "../../../src/toolchain/calibrate/threshold-path.ts";
import { createAnswer, createProfiledTier } from "./synthetic-cascade.ts";

const all = (count: number) => Array.from({ length: count }, (_, sample) => sample);
const options = { what: "disagreement", epsilon: 0.1, delta: 0.1, deadlineMs: 1_000 } as const;

describe("simulateCascade", () => {
  const edge = createProfiledTier("edge", 1, [
    createAnswer("a", 0.9),
    createAnswer("b", 0.9),
    createAnswer("a", 0.5),
    createAnswer("oos", 0.9, true),
    createAnswer("a", 0.9),
  ]);
  const region = createProfiledTier("region", 10, [
    createAnswer("a", 1),
    createAnswer("a", 1),
    createAnswer("b", 1),
    createAnswer("oos", 1, true),
    createAnswer("oos", 1, true),
  ]);
  const truth = ["a", "b", "b", "oos", "a"];
  const simulate = (
    thresholds: Thresholds,
    { riskKind = "disagreement" as RiskKind, deadlineMs = 1_000, groundTruth = truth } = {},
  ) => simulateCascade([edge, region], thresholds, all(5), groundTruth, riskKind, deadlineMs);

  it("counts disagreements with the last tier, including its out-of-scope verdicts", () => {
    expect(simulate([0.8])).toMatchObject({
      counts: { samples: 5, losses: 2, wins: 0 },
      shares: [0.6, 0.4],
      accuracy: 1,
      meanCost: 1 + 0.4 * 10,
      meanMs: 1 + 0.4 * 10,
    });
  });

  it("counts losses and wins for the risk `accuracy`", () => {
    expect(simulate([0.8], { riskKind: "accuracy" }).counts).toEqual({
      samples: 5,
      losses: 0,
      wins: 2,
    });
    const groundTruth = ["a", "a", "b", "oos", "oos"];
    expect(simulate([0.8], { riskKind: "accuracy", groundTruth }).counts).toEqual({
      samples: 5,
      losses: 2,
      wins: 0,
    });
  });

  it("reports the share of samples that may miss the deadline", () => {
    expect(simulate([0.8], { deadlineMs: 21 }).deadlineMissShare).toBe(0.4);
    expect(simulate([0.8], { deadlineMs: 22 }).deadlineMissShare).toBe(0);
  });

  it("accepts confidences equal to the threshold", () => {
    expect(simulate([0.9]).shares[0]).toBe(0.6);
    expect(simulate([0.900001]).shares[0]).toBe(0);
  });
});

describe("controlRisk", () => {
  const count = 200;
  /** Sample i has the confidence i / count, and its answer is wrong below one half. */
  const edge = createProfiledTier(
    "edge",
    1,
    all(count).map((sample) => createAnswer(sample < count / 2 ? "b" : "a", sample / count)),
  );
  const region = createProfiledTier(
    "region",
    10,
    all(count).map(() => createAnswer("a", 1)),
  );
  const truth = all(count).map(() => "a");

  it("chooses the cheapest thresholds before the first failure on the path", () => {
    const order = buildThresholdPath([edge, region], all(count), truth, options);
    const { path, chosen } = controlRisk([edge, region], order, all(count), truth, options);
    expect(chosen?.isValid).toBe(true);
    expect(chosen?.pValue).toBeLessThanOrEqual(0.1);
    expect(chosen?.risk).toBeLessThan(0.1);
    const [threshold = 0] = chosen?.thresholds ?? [];
    expect(threshold).toBeLessThan(0.5); // Some wrong answers exit as well.
    expect(threshold).toBeGreaterThan(0.4); // Fewer than 0.1 of all answers are wrong.
    expect(path.map(({ isValid }) => isValid).indexOf(false)).toBe(path.length - 1);
  });

  it("stops at the first failure, even if later thresholds would pass", () => {
    const { path, chosen } = controlRisk(
      [edge, region],
      [[0.9], [0], [0.6]],
      all(count),
      truth,
      options,
    );
    expect(path.map(({ isValid }) => isValid)).toEqual([true, false]);
    expect(chosen?.thresholds).toEqual([0.9]);
    expect(
      controlRisk([edge, region], [[0.9], [0.6]], all(count), truth, options).chosen?.thresholds,
    ).toEqual([0.6]);
  });

  it("reports what would suffice for an unattainable bound", () => {
    const few = all(20);
    const control = controlRisk([edge, region], [[0.9]], few, truth, { ...options, epsilon: 0.01 });
    expect(control.chosen).toBeUndefined();
    const { samples, epsilon = 1 } = findAttainableBound(control, { ...options, epsilon: 0.01 });
    expect(samples).toBe(230); // (1 - 0.01)^230 < 0.1
    expect(epsilon).toBeCloseTo(1 - 0.1 ** (1 / 20), 3);
    expect(
      controlRisk([edge, region], [[0.9]], few, truth, { ...options, epsilon }).chosen,
    ).toBeDefined();
  });
});

describe("buildThresholdPath", () => {
  const count = 100;
  const createAnswers = (label: string) =>
    all(count).map((sample) => createAnswer(sample % 10 === 0 ? "b" : label, sample / count));
  const [small, middle, top] = [
    createProfiledTier("small", 1, createAnswers("a")),
    createProfiledTier(
      "middle",
      5,
      all(count).map((sample) => createAnswer("a", sample / count)),
    ),
    createProfiledTier(
      "top",
      50,
      all(count).map(() => createAnswer("a", 1)),
    ),
  ];
  const truth = all(count).map(() => "a");

  const simulate = (thresholds: Thresholds, deadlineMs = 1_000) =>
    simulateCascade(
      [small, middle, top],
      thresholds,
      all(count),
      truth,
      "disagreement",
      deadlineMs,
    );

  it("starts with few exits and becomes cheaper with each step, over all tiers together", () => {
    const order = buildThresholdPath([small, middle, top], all(count), truth, options);
    const costs = order.map((thresholds) => simulate(thresholds).meanCost);
    expect(simulate(order[0] ?? []).shares[2]).toBeGreaterThan(0.9);
    expect(order).not.toContainEqual([1, 1]); // These thresholds allow no exit.
    expect(costs).toEqual(costs.toSorted((a, b) => b - a));
    // The middle tier is never wrong, so that it may answer everything without losses.
    const lossless = order.filter((thresholds) => simulate(thresholds).counts.losses === 0);
    const middleThresholds = lossless.map(([, threshold]) => threshold ?? 1);
    expect(Math.min(...middleThresholds)).toBeLessThan(0.05);
  });

  it("omits thresholds whose tiers miss the deadline", () => {
    const order = buildThresholdPath([small, middle, top], all(count), truth, {
      ...options,
      deadlineMs: 50,
    });
    expect(order.length).toBeGreaterThan(0);
    const missShares = order.map((thresholds) => simulate(thresholds, 50).deadlineMissShare);
    expect(Math.max(...missShares)).toBeLessThanOrEqual(0.01);
    expect(
      buildThresholdPath([small, middle, top], all(count), truth, { ...options, deadlineMs: 1 }),
    ).toEqual([]);
  });
});
