import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import {
  createLatencyHistogram,
  computeQuantileMs,
} from "../../../src/region/client/latency-histogram.ts";

const createHistogramOf = (latenciesMs: readonly number[]) => {
  const histogram = createLatencyHistogram(new ManualClock());
  for (const latencyMs of latenciesMs) histogram.record(latencyMs);
  return histogram;
};

describe("a histogram of latencies", () => {
  it("has every quantile from above, by 9 % at most; two of them together as one", () => {
    const latencies = fc.array(fc.double({ min: 1, max: 60_000, noNaN: true }), {
      minLength: 1,
      maxLength: 250,
    });
    fc.assert(
      fc.property(
        latencies,
        latencies,
        fc.double({ min: 0, max: 1, noNaN: true }),
        (some, others, quantile) => {
          const sorted = [...some, ...others].sort((a, b) => a - b);
          const exact = sorted[Math.max(1, Math.ceil(quantile * sorted.length)) - 1] ?? 0;
          const read =
            computeQuantileMs([createHistogramOf(some), createHistogramOf(others)], quantile, 1) ??
            0;
          expect(read / exact).toBeGreaterThan(0.9999);
          expect(read / exact).toBeLessThan(1.091);
        },
      ),
    );
  });

  it("tells nothing from too few samples, and takes what no clock measured for the least", () => {
    expect([
      computeQuantileMs([], 0.5, 0),
      computeQuantileMs([createHistogramOf([5, 5])], 0.5, 3),
      computeQuantileMs([createHistogramOf([0, -1, 0.2])], 0.5, 3),
    ]).toEqual([undefined, undefined, 1]);
  });

  it("forgets all but the last 256 to 512", () => {
    const slowThenFast = [
      ...Array.from({ length: 256 }, () => 1_000),
      ...Array.from({ length: 257 }, () => 10),
    ];
    expect(
      computeQuantileMs([createHistogramOf(slowThenFast.slice(0, 512))], 0.9, 1),
    ).toBeGreaterThan(900);
    expect(computeQuantileMs([createHistogramOf(slowThenFast)], 1, 1)).toBeLessThan(11);
  });

  it("forgets what is older than two minutes", () => {
    const clock = new ManualClock();
    const histogram = createLatencyHistogram(clock);
    histogram.record(1_000);
    clock.advance(60_000);
    histogram.record(10);
    expect([histogram.sampleCount, computeQuantileMs([histogram], 1, 1)]).toEqual([
      2,
      expect.closeTo(1_000, -2),
    ]);
    clock.advance(60_000);
    expect([histogram.sampleCount, computeQuantileMs([histogram], 1, 1)]).toEqual([
      1,
      expect.closeTo(10, 0),
    ]);
    clock.advance(120_000);
    expect(histogram.sampleCount).toBe(0);
  });
});
