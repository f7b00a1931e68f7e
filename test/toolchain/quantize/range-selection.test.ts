// Tests the selection of ranges from histograms.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Histogram } from "../../../src/toolchain/quantize/histogram.ts";
import { RANGE_METHODS, selectRange } from "../../../src/toolchain/quantize/range-selection.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";

function buildHistogram(...parts: readonly ArrayLike<number>[]): Histogram {
  const histogram = new Histogram();
  for (const part of parts) histogram.add(Float32Array.from(part));
  return histogram;
}

/** Draws normally distributed numbers by the Box-Muller method. */
function normalSamples(count: number, seed: number): number[] {
  const next = seededRandom(seed);
  return Array.from(
    { length: count },
    () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
  );
}

const percentile = (histogram: Histogram, share: number) =>
  selectRange(histogram, { kind: "percentile", percentile: share });

describe("the minmax range", () => {
  it("spans the least to the largest number of all samples", () => {
    expect(selectRange(buildHistogram([1, 2, -0.5], [0], [7]), { kind: "minmax" })).toEqual({
      low: -0.5,
      high: 7,
    });
  });

  it("is empty for zeros or no values, like that of every other method", () => {
    for (const method of RANGE_METHODS) {
      expect(selectRange(buildHistogram(), { kind: method })).toEqual({ low: 0, high: 0 });
      expect(selectRange(buildHistogram([0, 0, 0]), { kind: method })).toEqual({ low: 0, high: 0 });
    }
  });
});

describe("the percentile range", () => {
  it("excludes equal shares below and above", () => {
    const { low, high } = percentile(
      buildHistogram(Array.from({ length: 10_001 }, (_, index) => index - 2_000)),
      90,
    );
    // A tail of 5 % of 10,001 values starts 500 values from each end.
    expect(Math.abs(low + 1_500)).toBeLessThan(5);
    expect(Math.abs(high - 7_500)).toBeLessThan(5);
  });

  it("is within a bin of the exact range, for any numbers", () => {
    fc.assert(
      fc.property(
        fc.array(fc.float({ min: -100, max: 100, noNaN: true }), { minLength: 2, maxLength: 200 }),
        fc.constantFrom(80, 99, 99.9, 100),
        (values, share) => {
          const sorted = values.toSorted((first, second) => first - second);
          const bin = (2 * Math.max(...values.map(Math.abs))) / 4_096;
          const { low, high } = percentile(buildHistogram(values), share);
          // The bounds lie between the neighbors of the exact rank, because a bin counts as evenly
          // filled.
          const rank = ((1 - share / 100) / 2) * values.length;
          expect(low).toBeGreaterThanOrEqual(
            (sorted[Math.max(0, Math.ceil(rank) - 1)] ?? 0) - bin - 1e-9,
          );
          expect(low).toBeLessThanOrEqual(
            (sorted[Math.ceil(rank)] ?? Number.POSITIVE_INFINITY) + bin,
          );
          expect(high).toBeLessThanOrEqual((sorted.at(-1) ?? 0) + 1e-9);
          expect(high).toBeGreaterThanOrEqual(
            (sorted[Math.max(0, Math.floor(values.length - rank) - 1)] ?? 0) - bin - 1e-9,
          );
        },
      ),
      { seed: 1 },
    );
  });

  it("does not depend on the order of the numbers", () => {
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
          for (const share of [99, 100]) {
            expect(percentile(alone, share)).toEqual(percentile(all, share));
            expect(percentile(backwards, share)).toEqual(percentile(all, share));
          }
        },
      ),
      { seed: 1 },
    );
  });
});

describe("the entropy range", () => {
  const entropyRange = (...parts: readonly ArrayLike<number>[]) =>
    selectRange(buildHistogram(...parts), { kind: "entropy" });

  it("excludes a few distant numbers", () => {
    const { low, high } = entropyRange(normalSamples(100_000, 1), [60, -50]);
    expect(high).toBeGreaterThan(3.5);
    expect(high).toBeLessThan(15);
    expect(low).toBe(-high);
  });

  it("includes everything if all magnitudes are equally frequent", () => {
    const next = seededRandom(2);
    const { low, high } = entropyRange(Array.from({ length: 100_000 }, () => 3 * next()));
    expect(low).toBeGreaterThanOrEqual(0);
    expect(high).toBeGreaterThan(2.9);
  });

  it("does not depend on the number of zeros, which every scale represents", () => {
    expect(entropyRange(normalSamples(50_000, 3).map((value) => Math.max(0, value)))).toEqual(
      entropyRange(
        normalSamples(50_000, 3).map((value) => Math.max(0, value)),
        new Float32Array(1_000_000),
      ),
    );
  });
});

it("a histogram rejects non-finite numbers", () => {
  const histogram = buildHistogram([1, 2]);
  expect(
    [Number.NaN, Infinity, -Infinity].map((value) => histogram.add(Float32Array.of(5, value))),
  ).toEqual([false, false, false]);
});

describe("the mse range", () => {
  const mseRange = (...parts: readonly ArrayLike<number>[]) =>
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

  it("has a smaller error than the full range, and than ranges with scaled bounds", () => {
    const values = [...normalSamples(20_000, 4), 30, -9];
    const found = mseRange(values);
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

  it("stays on the side of the numbers, and includes all of them without outliers", () => {
    const next = seededRandom(5);
    const { low, high } = mseRange(Array.from({ length: 10_000 }, () => 3 * next()));
    expect(low).toBe(0);
    expect(high).toBeGreaterThan(2.99);
  });
});
