// Ranges from what occurred.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RANGE_METHODS, selectRange } from "../../../src/toolchain/quantize/range-selection.ts";
import { Histogram } from "../../../src/toolchain/quantize/histogram.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";

function buildHistogram(...parts: readonly ArrayLike<number>[]): Histogram {
  const histogram = new Histogram();
  for (const part of parts) histogram.add(Float32Array.from(part));
  return histogram;
}

/** Box and Muller. */
function normalSamples(count: number, seed: number): number[] {
  const next = seededRandom(seed);
  return Array.from(
    { length: count },
    () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
  );
}

const percentile = (histogram: Histogram, wanted: number) =>
  selectRange(histogram, { kind: "percentile", percentile: wanted });

describe("the range of everything", () => {
  it("goes from the least to the largest number of all samples", () => {
    expect(selectRange(buildHistogram([1, 2, -0.5], [0], [7]), { kind: "minmax" })).toEqual({
      low: -0.5,
      high: 7,
    });
  });

  it("is 0 where nothing but 0, or nothing, occurred", () => {
    for (const method of RANGE_METHODS) {
      expect(selectRange(buildHistogram(), { kind: method })).toEqual({ low: 0, high: 0 });
      expect(selectRange(buildHistogram([0, 0, 0]), { kind: method })).toEqual({ low: 0, high: 0 });
    }
  });
});

describe("the range of a percentile", () => {
  it("leaves as many out below as above", () => {
    const { low, high } = percentile(
      buildHistogram(Array.from({ length: 10_001 }, (_, index) => index - 2_000)),
      90,
    );
    expect([low, high]).toEqual([expect.closeTo(-1_500, -1), expect.closeTo(7_500, -1)]);
  });

  it("is within a bin of the exact one, whatever the numbers", () => {
    fc.assert(
      fc.property(
        fc.array(fc.float({ min: -100, max: 100, noNaN: true }), { minLength: 2, maxLength: 200 }),
        fc.constantFrom(80, 99, 99.9, 100),
        (values, wanted) => {
          const sorted = values.toSorted((one, other) => one - other);
          const bin = (2 * Math.max(...values.map(Math.abs))) / 4_096;
          const { low, high } = percentile(buildHistogram(values), wanted);
          // Between the neighbours of the exact place, as numbers are taken to be spread within a bin.
          const place = ((1 - wanted / 100) / 2) * values.length;
          expect(low).toBeGreaterThanOrEqual(
            (sorted[Math.max(0, Math.ceil(place) - 1)] ?? 0) - bin - 1e-9,
          );
          expect(low).toBeLessThanOrEqual(
            (sorted[Math.ceil(place)] ?? Number.POSITIVE_INFINITY) + bin,
          );
          expect(high).toBeLessThanOrEqual((sorted.at(-1) ?? 0) + 1e-9);
          expect(high).toBeGreaterThanOrEqual(
            (sorted[Math.max(0, Math.floor(values.length - place) - 1)] ?? 0) - bin - 1e-9,
          );
        },
      ),
      { seed: 1 },
    );
  });

  it("does not depend on the order in which numbers came", () => {
    fc.assert(
      fc.property(
        fc.array(fc.float({ min: -1000, max: 1000, noNaN: true }), {
          minLength: 1,
          maxLength: 100,
        }),
        (values) => {
          const [all, alone, backwards] = [
            buildHistogram(values),
            buildHistogram(...values.map((value) => [value])),
            buildHistogram(values.toReversed()),
          ];
          for (const wanted of [99, 100]) {
            expect(percentile(alone, wanted)).toEqual(percentile(all, wanted));
            expect(percentile(backwards, wanted)).toEqual(percentile(all, wanted));
          }
        },
      ),
      { seed: 1 },
    );
  });
});

describe("the range of least divergence", () => {
  const range = (...parts: readonly ArrayLike<number>[]) =>
    selectRange(buildHistogram(...parts), { kind: "entropy" });

  it("cuts off the few numbers that are far from all others", () => {
    const { low, high } = range(normalSamples(100_000, 1), [60, -50]);
    expect(high).toBeGreaterThan(3.5);
    expect(high).toBeLessThan(15);
    expect(low).toBe(-high);
  });

  it("takes in everything where all magnitudes occur as often", () => {
    const next = seededRandom(2);
    const { low, high } = range(Array.from({ length: 100_000 }, () => 3 * next()));
    expect(low).toBeGreaterThanOrEqual(0);
    expect(high).toBeGreaterThan(2.9);
  });

  it("is the same with any number of zeros, which every scale expresses", () => {
    expect(range(normalSamples(50_000, 3).map((value) => Math.max(0, value)))).toEqual(
      range(
        normalSamples(50_000, 3).map((value) => Math.max(0, value)),
        new Float32Array(1_000_000),
      ),
    );
  });
});

it("takes no number that is not finite", () => {
  const histogram = buildHistogram([1, 2]);
  expect(
    [Number.NaN, Infinity, -Infinity].map((value) => histogram.add(Float32Array.of(5, value))),
  ).toEqual([false, false, false]);
});

describe("the range of least error", () => {
  const range = (...parts: readonly ArrayLike<number>[]) =>
    selectRange(buildHistogram(...parts), { kind: "mse" });
  const meanSquare = (
    values: readonly number[],
    { low, high }: { readonly low: number; readonly high: number },
  ) => {
    const step = (high - low) / 255;
    return (
      values.reduce(
        (sum, value) =>
          sum +
          (Math.min(high, Math.max(low, low + Math.round((value - low) / step) * step)) - value) **
            2,
        0,
      ) / values.length
    );
  };

  it("is better than all that occurred, and than any other range of these sides", () => {
    const values = [...normalSamples(20_000, 4), 30, -9];
    const found = range(values);
    expect(meanSquare(values, found)).toBeLessThan(meanSquare(values, { low: -9, high: 30 }));
    for (const [low, high] of [
      [0.7, 1],
      [1, 0.7],
      [1.3, 1],
      [1, 1.3],
    ] as const) {
      expect(meanSquare(values, found)).toBeLessThan(
        1.02 *
          meanSquare(values, {
            low: Math.max(-9, low * found.low),
            high: Math.min(30, high * found.high),
          }),
      );
    }
  });

  it("keeps to the side on which numbers are, and takes in all of them where none is far off", () => {
    const next = seededRandom(5);
    const { low, high } = range(Array.from({ length: 10_000 }, () => 3 * next()));
    expect(low).toBe(0);
    expect(high).toBeGreaterThan(2.99);
  });
});
