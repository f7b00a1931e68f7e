import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { createLatencyHistogram } from "../../src/core/latency-histogram.ts";

describe("createLatencyHistogram", () => {
  it("knows every quantile within 5 % (property)", () => {
    const latencies = fc.array(fc.double({ min: 0.01, max: 600_000, noNaN: true }), { minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(latencies, fc.double({ min: 0, max: 1, noNaN: true }), (all, quantile) => {
        const histogram = createLatencyHistogram(new ManualClock(), 1_000);
        for (const one of all) histogram.record(one);
        const exact = all.toSorted((a, b) => a - b)[Math.max(1, Math.ceil(quantile * all.length)) - 1] ?? Number.NaN;
        const found = histogram.quantile(quantile) ?? Number.NaN;
        expect(Math.abs(found - exact) / exact).toBeLessThan(0.0501);
        expect(histogram.count).toBe(all.length);
      }),
    );
  });

  it("knows nothing before the first latency", () => {
    const histogram = createLatencyHistogram(new ManualClock(), 1_000);
    expect([histogram.count, histogram.quantile(0.95)]).toEqual([0, undefined]);
  });

  it("forgets what is older than its window, at twice its age at the latest", () => {
    const clock = new ManualClock();
    const histogram = createLatencyHistogram(clock, 1_000);
    histogram.record(5);
    clock.advance(1_000);
    histogram.record(50);
    expect(histogram.count).toBe(2);
    clock.advance(1_000);
    expect([histogram.count, histogram.quantile(0)]).toEqual([1, expect.closeTo(50, -1)]);
    clock.advance(2_000);
    expect(histogram.count).toBe(0);
  });

  it("takes the shortest and the longest", () => {
    const histogram = createLatencyHistogram(new ManualClock(), 1_000);
    histogram.record(0);
    expect(histogram.quantile(1)).toBeLessThan(0.011);
    histogram.record(Number.MAX_SAFE_INTEGER);
    expect(histogram.quantile(1)).toBeGreaterThan(600_000);
  });
});
