// Percentiles, their bounds and histograms, as properties of any samples.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { scheduleArrivalsMs } from "../../../src/cli/load/arrivals.ts";
import { createDistribution, computeHistogram } from "../../../src/cli/load/distribution.ts";
import { isWithinBound } from "../../../src/cli/load/percentile-bound.ts";
import { createRandom } from "../../../src/cli/load/random.ts";

const latencies = fc.array(fc.double({ min: 0, max: 100_000, noNaN: true }), {
  minLength: 1,
  maxLength: 700,
});
const shares = fc.constantFrom(0.5, 0.9, 0.95, 0.99);

describe("a distribution", () => {
  it("has its percentile at the first sample that enough others do not exceed", () => {
    fc.assert(
      fc.property(latencies, shares, (samples, share) => {
        const { quantile: at, countAbove, count: n } = createDistribution(samples);
        const value = at(share);
        expect(countAbove(value)).toBe(samples.filter((sample) => sample > value).length);
        expect(countAbove(value)).toBeLessThanOrEqual((1 - share) * n + 1e-9);
        expect(samples.filter((sample) => sample < value).length).toBeLessThan(share * n + 1e-9);
      }),
    );
  });

  it("bounds a percentile by the value that few enough samples are above", () => {
    fc.assert(
      fc.property(latencies, shares, (samples, share) => {
        const {
          quantileUpperBound: atMost,
          countAbove,
          quantile: at,
          count: n,
        } = createDistribution(samples);
        const bound = atMost(share);
        expect(bound === undefined).toBe(!isWithinBound(n, 0, share));
        expect(
          bound === undefined || (isWithinBound(n, countAbove(bound), share) && bound >= at(share)),
        ).toBe(true);
      }),
    );
  });

  it("is whole in its histogram, which has no gaps", () => {
    fc.assert(
      fc.property(latencies, (samples) => {
        const buckets = computeHistogram(createDistribution(samples));
        expect(buckets.reduce((sum, { count }) => sum + count, 0)).toBe(samples.length);
        expect(buckets.slice(1).map(({ fromMs }) => fromMs)).toEqual(
          buckets.slice(0, -1).map(({ toMs }) => toMs),
        );
      }),
    );
  });

  it("has neither quantile nor histogram without samples", () => {
    const none = createDistribution([]);
    expect(none.quantile(0.99)).toBeNaN();
    expect(none.quantileUpperBound(0.99)).toBeUndefined();
    expect(computeHistogram(none)).toEqual([]);
  });
});

describe("arrivals", () => {
  it("ascend within their time, the same for the same seed", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("poisson" as const, "constant" as const),
        fc.double({ min: 0.5, max: 2_000, noNaN: true }),
        fc.integer({ min: 1, max: 3_000 }),
        fc.integer({ min: 1, max: 99 }),
        (arrivals, rate, durationMs, seed) => {
          const due = scheduleArrivalsMs(arrivals, rate, durationMs, createRandom(seed));
          expect([...due]).toEqual([...due].toSorted((a, b) => a - b));
          expect(due.every((atMs) => atMs >= 0 && atMs < durationMs)).toBe(true);
          expect(scheduleArrivalsMs(arrivals, rate, durationMs, createRandom(seed))).toEqual(due);
        },
      ),
    );
  });

  it("of a Poisson process have gaps whose deviation is their mean", () => {
    const due = scheduleArrivalsMs("poisson", 100, 1_000_000, createRandom(3));
    const gaps = due.slice(1).map((atMs, index) => atMs - (due[index] ?? 0));
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
    const deviation = Math.sqrt(
      gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length,
    );
    expect({ mean, deviation }).toEqual({
      mean: expect.closeTo(10, 1),
      deviation: expect.closeTo(10, 1),
    });
  });
});
