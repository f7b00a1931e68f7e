import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  binomialCdf,
  clopperPearsonUpper,
  minSamplesForBound,
  type WinLossCounts,
  computeRiskPValue,
} from "../../../src/toolchain/calibrate/p-values.ts";
import { createRandom } from "../../bench/lib/random.ts";

const losses = (samples: number, lost: number, won = 0): WinLossCounts => ({
  samples,
  losses: lost,
  wins: won,
});

describe("binomialCdf", () => {
  it("is the sum of the binomial's chances", () => {
    expect(binomialCdf(4, 0.5, 1)).toBeCloseTo(5 / 16, 12);
    expect(binomialCdf(2_000, 0.01, 20)).toBeCloseTo(0.559093331998649, 9); // summed in rational numbers
    expect([
      binomialCdf(5, 0.3, -1),
      binomialCdf(5, 0.3, 5),
      binomialCdf(5, 1, 4),
      binomialCdf(5, 0, 0),
    ]).toEqual([0, 1, 0, 1]);
  });

  it("stays finite for many samples", () => {
    expect(binomialCdf(1_000_000, 0.5, 500_000)).toBeCloseTo(0.5004, 3);
    expect(binomialCdf(1_000_000, 0.5, 10)).toBe(0);
  });
});

describe("clopperPearsonUpper", () => {
  it("has the closed form of no success", () => {
    expect(clopperPearsonUpper(100, 0, 0.05)).toBeCloseTo(1 - 0.05 ** (1 / 100), 9);
  });
});

describe("computeRiskPValue", () => {
  it("of disagreement is the binomial's, so that without any so many samples do", () => {
    const enough = minSamplesForBound(0.01, 0.05);
    expect(enough).toBe(299);
    expect(computeRiskPValue("disagreement", losses(enough, 0), 0.01)).toBeLessThanOrEqual(0.05);
    expect(computeRiskPValue("disagreement", losses(enough - 1, 0), 0.01)).toBeGreaterThan(0.05);
  });

  it("of a loss of accuracy counts what is won against what is lost", () => {
    expect(computeRiskPValue("accuracy", losses(2_000, 20, 0), 0.01)).toBeGreaterThan(0.3);
    const value = computeRiskPValue("accuracy", losses(2_000, 20, 10), 0.01);
    expect(value).toBeGreaterThan(0.12164); // the largest over a fine grid of chances to win, which cells bound from above
    expect(value).toBeLessThan(0.132);
    expect(computeRiskPValue("accuracy", losses(2_000, 20, 20), 0.01)).toBeLessThan(0.03);
  });

  it("falls with epsilon and rises with what is lost (property)", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("disagreement", "accuracy"),
        fc.integer({ min: 50, max: 400 }),
        fc.nat(10),
        fc.nat(10),
        fc.double({ min: 0.01, max: 0.2, noNaN: true }),
        (what, samples, lost, won, epsilon) => {
          const counts = losses(samples, lost, what === "accuracy" ? won : 0);
          const value = computeRiskPValue(what, counts, epsilon);
          expect(value).toBeGreaterThanOrEqual(0);
          expect(value).toBeLessThanOrEqual(1);
          expect(
            computeRiskPValue(what, { ...counts, losses: lost + 1 }, epsilon),
          ).toBeGreaterThanOrEqual(value - 1e-9);
          expect(computeRiskPValue(what, counts, epsilon + 0.05)).toBeLessThanOrEqual(value + 1e-9);
        },
      ),
      { numRuns: 40 },
    );
  });

  it("is not smaller than 0.05 more often than in 0.05 of the cases where the risk is just epsilon", () => {
    const { next } = createRandom(7);
    const [samples, epsilon, won] = [500, 0.02, 0.03];
    const trials = 2_000;
    let [wrong, wrongly] = [0, 0];
    for (let trial = 0; trial < trials; trial++) {
      const drawn = Array.from({ length: samples }, next);
      if (
        computeRiskPValue(
          "disagreement",
          losses(samples, drawn.filter((one) => one < epsilon).length),
          epsilon,
        ) <= 0.05
      )
        wrong++;
      const counts = losses(
        samples,
        drawn.filter((one) => one < epsilon + won).length,
        drawn.filter((one) => one > 1 - won).length,
      );
      if (trial < 400 && computeRiskPValue("accuracy", counts, epsilon) <= 0.05) wrongly++;
    }
    expect(wrong / trials).toBeLessThanOrEqual(0.05 + 0.01);
    expect(wrong).toBeGreaterThan(0);
    expect(wrongly / 400).toBeLessThanOrEqual(0.05 + 0.025);
  });
});
