import { describe, expect, it } from "vitest";
import { controlRisk, findAttainableBound } from "../../../src/toolchain/calibrate/control-risk.ts";
import { buildThresholdPath } from "../../../src/toolchain/calibrate/threshold-path.ts";
import { simulateCascade } from "../../../src/toolchain/calibrate/simulate-cascade.ts";
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

  it("counts what is answered otherwise than by the last tier, a verdict of it included", () => {
    const {
      counts: losses,
      shares,
      accuracy,
      meanCost,
      meanMs,
    } = simulateCascade([edge, region], [0.8], all(5), truth, "disagreement", 1_000);
    expect(losses).toEqual({ samples: 5, losses: 2, wins: 0 });
    expect(shares).toEqual([0.6, 0.4]);
    expect([accuracy, meanCost, meanMs]).toEqual([1, 1 + 0.4 * 10, 1 + 0.4 * 10]);
  });

  it("counts for the accuracy what is lost and what is won", () => {
    expect(simulateCascade([edge, region], [0.8], all(5), truth, "accuracy", 1_000).counts).toEqual(
      {
        samples: 5,
        losses: 0,
        wins: 2,
      },
    );
    expect(
      simulateCascade(
        [edge, region],
        [0.8],
        all(5),
        ["a", "a", "b", "oos", "oos"],
        "accuracy",
        1_000,
      ).counts,
    ).toEqual({ samples: 5, losses: 2, wins: 0 });
  });

  it("tells for how many the deadline may be too short", () => {
    expect(
      simulateCascade([edge, region], [0.8], all(5), truth, "accuracy", 21).deadlineMissShare,
    ).toBe(0.4);
    expect(
      simulateCascade([edge, region], [0.8], all(5), truth, "accuracy", 22).deadlineMissShare,
    ).toBe(0);
  });

  it("lets confidences of the threshold's own value exit together", () => {
    expect(
      simulateCascade([edge, region], [0.9], all(5), truth, "disagreement", 1_000).shares[0],
    ).toBe(0.6);
    expect(
      simulateCascade([edge, region], [0.900001], all(5), truth, "disagreement", 1_000).shares[0],
    ).toBe(0);
  });
});

describe("controlRisk", () => {
  const count = 200;
  /** The i-th is sure by i / count, and wrong below one half. */
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

  it("goes down to where the risk is still surely allowed, and not past the first vector that fails", () => {
    const order = buildThresholdPath([edge, region], all(count), truth, options);
    const { path, chosen } = controlRisk([edge, region], order, all(count), truth, options);
    expect(chosen?.isValid).toBe(true);
    expect(chosen?.pValue).toBeLessThanOrEqual(0.1);
    expect(chosen?.risk).toBeLessThan(0.1);
    const [threshold = 0] = chosen?.thresholds ?? [];
    expect(threshold).toBeLessThan(0.5); // some of the wrong ones as well
    expect(threshold).toBeGreaterThan(0.4); // not 0.1 of all
    expect(path.map(({ isValid }) => isValid).indexOf(false)).toBe(path.length - 1);
  });

  it("stops at the first failure, though a later vector would pass", () => {
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

  it("tells what would reach a bound that is not reached", () => {
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
  const sure = (label: string) =>
    all(count).map((sample) => createAnswer(sample % 10 === 0 ? "b" : label, sample / count));
  const [small, middle, top] = [
    createProfiledTier("small", 1, sure("a")),
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

  it("begins where hardly anything exits, and grows cheaper step by step, over all tiers together", () => {
    const order = buildThresholdPath([small, middle, top], all(count), truth, options);
    const costs = order.map(
      (thresholds) =>
        simulateCascade([small, middle, top], thresholds, all(count), truth, "disagreement", 1_000)
          .meanCost,
    );
    expect(
      simulateCascade(
        [small, middle, top],
        order[0] ?? [],
        all(count),
        truth,
        "disagreement",
        1_000,
      ).shares[2],
    ).toBeGreaterThan(0.9);
    expect(order).not.toContainEqual([1, 1]); // nothing would exit
    expect(costs).toEqual(costs.toSorted((a, b) => b - a));
    const free = order.filter(
      (thresholds) =>
        simulateCascade([small, middle, top], thresholds, all(count), truth, "disagreement", 1_000)
          .counts.losses === 0,
    );
    expect(free.some(([, ofMiddle]) => (ofMiddle ?? 1) < 0.05)).toBe(true); // the middle tier, which is never wrong, may take all
  });

  it("leaves out what the deadline has no time for", () => {
    const order = buildThresholdPath([small, middle, top], all(count), truth, {
      ...options,
      deadlineMs: 50,
    });
    expect(order.length).toBeGreaterThan(0);
    expect(
      order.every(
        (thresholds) =>
          simulateCascade([small, middle, top], thresholds, all(count), truth, "disagreement", 50)
            .deadlineMissShare <= 0.01,
      ),
    ).toBe(true);
    expect(
      buildThresholdPath([small, middle, top], all(count), truth, { ...options, deadlineMs: 1 }),
    ).toEqual([]);
  });
});
