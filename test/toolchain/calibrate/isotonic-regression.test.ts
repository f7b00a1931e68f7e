import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { applyIsotonic } from "../../../src/cascade/calibration.ts";
import {
  fitIsotonic,
  type ConfidenceSample,
  poolAdjacentViolators,
} from "../../../src/toolchain/calibrate/isotonic-regression.ts";

const confidenceSamples = (...pairs: (readonly [number, boolean])[]): ConfidenceSample[] =>
  pairs.map(([confidence, isCorrect]) => ({ confidence, isCorrect: isCorrect }));
const anyConfidenceSamples = fc.array(
  fc.record({ confidence: fc.double({ min: 0, max: 1, noNaN: true }), isCorrect: fc.boolean() }),
  { minLength: 1, maxLength: 60 },
);

describe("poolAdjacentViolators", () => {
  it("pools what is less often right though surer", () => {
    const blocks = poolAdjacentViolators(
      confidenceSamples([0.1, false], [0.2, true], [0.3, false], [0.9, true]),
    );
    expect(blocks.map(({ right, count }) => [right, count])).toEqual([
      [0, 1],
      [1, 2],
      [1, 1],
    ]);
  });

  it("gives the shares with the least squared error of all that ascend: a block is never better cut in two (property)", () => {
    fc.assert(
      fc.property(anyConfidenceSamples, (all) => {
        const blocks = poolAdjacentViolators(all);
        const shares = blocks.map(({ right, count }) => right / count);
        expect(
          shares.every((share, index) => index === 0 || share > (shares[index - 1] ?? 0)),
        ).toBe(true);
        expect(blocks.reduce((sum, { count }) => sum + count, 0)).toBe(all.length);
        expect(blocks.reduce((sum, { right }) => sum + right, 0)).toBe(
          all.filter(({ isCorrect: isRight }) => isRight).length,
        );
      }),
    );
  });
});

describe("fitIsotonic", () => {
  it("ascends, strictly in what goes in, and is never certain before 1 (property)", () => {
    fc.assert(
      fc.property(
        anyConfidenceSamples,
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 2, maxLength: 20 }),
        (all, values) => {
          const map = fitIsotonic(all);
          expect(
            map.confidence.every(
              (one, index) => index === 0 || one > (map.confidence[index - 1] ?? 0),
            ),
          ).toBe(true);
          const mapped = values.toSorted((a, b) => a - b).map((value) => applyIsotonic(map, value));
          expect(
            mapped.every(
              (one, index) =>
                one > 0 && one < 1 && (index === 0 || one >= (mapped[index - 1] ?? 0)),
            ),
          ).toBe(true);
        },
      ),
    );
  });

  it("says how often answers of a confidence are right", () => {
    const map = fitIsotonic(
      Array.from({ length: 1_000 }, (_, index) => ({ confidence: 0.9, isCorrect: index % 10 < 6 })),
    );
    expect(applyIsotonic(map, 0.9)).toBeCloseTo(0.6, 3);
  });
});
