// The latency histogram: the error of its quantiles, and how long it remembers samples.
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

describe("a latency histogram", () => {
  it("overestimates each quantile by at most 9 %, for two merged histograms too", () => {
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
          const estimate =
            computeQuantileMs([createHistogramOf(some), createHistogramOf(others)], quantile, 1) ??
            0;
          expect(estimate / exact).toBeGreaterThan(0.9999);
          expect(estimate / exact).toBeLessThan(1.091);
        },
      ),
    );
  });

  it("has no quantile from too few samples, and raises latencies below 1 ms to 1 ms", () => {
    expect(computeQuantileMs([], 0.5, 0)).toBeUndefined();
    expect(computeQuantileMs([createHistogramOf([5, 5])], 0.5, 3)).toBeUndefined();
    expect(computeQuantileMs([createHistogramOf([0, -1, 0.2])], 0.5, 3)).toBe(1);
  });

  it("keeps only the latest 256 to 512 samples", () => {
    const slowThenFast = [
      ...Array.from({ length: 256 }, () => 1_000),
      ...Array.from({ length: 257 }, () => 10),
    ];
    expect(
      computeQuantileMs([createHistogramOf(slowThenFast.slice(0, 512))], 0.9, 1),
    ).toBeGreaterThan(900);
    expect(computeQuantileMs([createHistogramOf(slowThenFast)], 1, 1)).toBeLessThan(11);
  });

  it("forgets samples after two minutes", () => {
    const clock = new ManualClock();
    const histogram = createLatencyHistogram(clock);
    histogram.record(1_000);
    clock.advance(60_000);
    histogram.record(10);
    expect(histogram.sampleCount).toBe(2);
    const bothMs = computeQuantileMs([histogram], 1, 1);
    expect(bothMs).toBeGreaterThanOrEqual(1_000);
    expect(bothMs).toBeLessThan(1_091);
    clock.advance(60_000);
    expect(histogram.sampleCount).toBe(1);
    const latestMs = computeQuantileMs([histogram], 1, 1);
    expect(latestMs).toBeGreaterThanOrEqual(10);
    expect(latestMs).toBeLessThan(10.91);
    clock.advance(120_000);
    expect(histogram.sampleCount).toBe(0);
  });
});
