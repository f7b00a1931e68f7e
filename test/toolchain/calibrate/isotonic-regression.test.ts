import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { applyIsotonic } from "../../../src/cascade/calibration.ts";
import {
  fitIsotonic,
  type ConfidenceSample,
  poolAdjacentViolators,
} from "../../../src/toolchain/calibrate/isotonic-regression.ts";

const confidenceSamples = (...pairs: (readonly [number, boolean])[]): ConfidenceSample[] =>
  pairs.map(([confidence, isCorrect]) => ({ confidence, isCorrect }));
const confidenceSamplesArbitrary = fc.array(
  fc.record({ confidence: fc.double({ min: 0, max: 1, noNaN: true }), isCorrect: fc.boolean() }),
  { minLength: 1, maxLength: 60 },
);

describe("poolAdjacentViolators", () => {
  it("pools blocks with a higher confidence but a lower accuracy", () => {
    const blocks = poolAdjacentViolators(
      confidenceSamples([0.1, false], [0.2, true], [0.3, false], [0.9, true]),
    );
    expect(blocks).toMatchObject([
      { correct: 0, count: 1 },
      { correct: 1, count: 2 },
      { correct: 1, count: 1 },
    ]);
  });

  it("returns blocks of strictly ascending accuracy that cover all samples (property)", () => {
    fc.assert(
      fc.property(confidenceSamplesArbitrary, (samples) => {
        const blocks = poolAdjacentViolators(samples);
        const accuracies = blocks.map(({ correct, count }) => correct / count);
        expect(accuracies).toEqual([...new Set(accuracies)].toSorted((a, b) => a - b));
        expect(blocks.reduce((sum, { count }) => sum + count, 0)).toBe(samples.length);
        expect(blocks.reduce((sum, { correct }) => sum + correct, 0)).toBe(
          samples.filter(({ isCorrect }) => isCorrect).length,
        );
      }),
    );
  });
});

describe("fitIsotonic", () => {
  it("ascends, strictly in its inputs, and stays between 0 and 1 (property)", () => {
    fc.assert(
      fc.property(
        confidenceSamplesArbitrary,
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 2, maxLength: 20 }),
        (samples, values) => {
          const map = fitIsotonic(samples);
          expect(map.confidence).toEqual([...new Set(map.confidence)].toSorted((a, b) => a - b));
          const mapped = values.toSorted((a, b) => a - b).map((value) => applyIsotonic(map, value));
          expect(mapped).toEqual(mapped.toSorted((a, b) => a - b));
          expect(Math.min(...mapped)).toBeGreaterThan(0);
          expect(Math.max(...mapped)).toBeLessThan(1);
        },
      ),
    );
  });

  it("returns the accuracy of answers with a confidence", () => {
    const map = fitIsotonic(
      Array.from({ length: 1_000 }, (_, index) => ({ confidence: 0.9, isCorrect: index % 10 < 6 })),
    );
    expect(applyIsotonic(map, 0.9)).toBeCloseTo(0.6, 3);
  });
});
