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
import { propertyRuns } from "../../support/property-runs.ts";

const createCounts = (samples: number, losses: number, wins = 0): WinLossCounts => ({
  samples,
  losses,
  wins,
});

describe("binomialCdf", () => {
  it("is the cumulative sum of the binomial probabilities", () => {
    expect(binomialCdf(4, 0.5, 1)).toBeCloseTo(5 / 16, 12);
    expect(binomialCdf(2_000, 0.01, 20)).toBeCloseTo(0.559093331998649, 9); // The reference is a sum of rational numbers.
    expect({
      belowZero: binomialCdf(5, 0.3, -1),
      allSamples: binomialCdf(5, 0.3, 5),
      certainSuccess: binomialCdf(5, 1, 4),
      impossibleSuccess: binomialCdf(5, 0, 0),
    }).toEqual({ belowZero: 0, allSamples: 1, certainSuccess: 0, impossibleSuccess: 1 });
  });

  it("stays finite for many samples", () => {
    expect(binomialCdf(1_000_000, 0.5, 500_000)).toBeCloseTo(0.5004, 3);
    expect(binomialCdf(1_000_000, 0.5, 10)).toBe(0);
  });
});

describe("clopperPearsonUpper", () => {
  it("agrees with the closed form for no successes", () => {
    expect(clopperPearsonUpper(100, 0, 0.05)).toBeCloseTo(1 - 0.05 ** (1 / 100), 9);
  });
});

describe("computeRiskPValue", () => {
  it("is binomial for disagreement, so that a minimum number of samples suffices without losses", () => {
    const minSamples = minSamplesForBound(0.01, 0.05);
    expect(minSamples).toBe(299);
    expect(
      computeRiskPValue("disagreement", createCounts(minSamples, 0), 0.01),
    ).toBeLessThanOrEqual(0.05);
    expect(
      computeRiskPValue("disagreement", createCounts(minSamples - 1, 0), 0.01),
    ).toBeGreaterThan(0.05);
  });

  it("offsets losses by wins for accuracy", () => {
    expect(computeRiskPValue("accuracy", createCounts(2_000, 20, 0), 0.01)).toBeGreaterThan(0.3);
    const value = computeRiskPValue("accuracy", createCounts(2_000, 20, 10), 0.01);
    expect(value).toBeGreaterThan(0.12164); // The maximum over a fine grid of win probabilities, which the cells bound from above.
    expect(value).toBeLessThan(0.132);
    expect(computeRiskPValue("accuracy", createCounts(2_000, 20, 20), 0.01)).toBeLessThan(0.03);
  });

  it("falls with epsilon and rises with losses (property)", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("disagreement", "accuracy"),
        fc.integer({ min: 50, max: 400 }),
        fc.nat(10),
        fc.nat(10),
        fc.double({ min: 0.01, max: 0.2, noNaN: true }),
        (what, samples, lossCount, winCount, epsilon) => {
          const counts = createCounts(samples, lossCount, what === "accuracy" ? winCount : 0);
          const value = computeRiskPValue(what, counts, epsilon);
          expect(value).toBeGreaterThanOrEqual(0);
          expect(value).toBeLessThanOrEqual(1);
          expect(
            computeRiskPValue(what, { ...counts, losses: lossCount + 1 }, epsilon),
          ).toBeGreaterThanOrEqual(value - 1e-9);
          expect(computeRiskPValue(what, counts, epsilon + 0.05)).toBeLessThanOrEqual(value + 1e-9);
        },
      ),
      { numRuns: propertyRuns(40) },
    );
  });
});

describe("computeRiskPValue at a risk of exactly epsilon", () => {
  it("falls below 0.05 in at most 0.05 of the cases", () => {
    const { next } = createRandom(7);
    const [samples, epsilon, winProbability] = [500, 0.02, 0.03];
    const trials = 2_000;
    const accuracyTrials = 400;
    let [falseDisagreements, falseAccuracies] = [0, 0];
    for (let trial = 0; trial < trials; trial++) {
      const draws = Array.from({ length: samples }, next);
      if (
        computeRiskPValue(
          "disagreement",
          createCounts(samples, draws.filter((draw) => draw < epsilon).length),
          epsilon,
        ) <= 0.05
      )
        falseDisagreements++;
      const counts = createCounts(
        samples,
        draws.filter((draw) => draw < epsilon + winProbability).length,
        draws.filter((draw) => draw > 1 - winProbability).length,
      );
      if (trial < accuracyTrials && computeRiskPValue("accuracy", counts, epsilon) <= 0.05)
        falseAccuracies++;
    }
    expect(falseDisagreements / trials).toBeLessThanOrEqual(0.05 + 0.01);
    expect(falseDisagreements).toBeGreaterThan(0);
    expect(falseAccuracies / accuracyTrials).toBeLessThanOrEqual(0.05 + 0.025);
  });
});
