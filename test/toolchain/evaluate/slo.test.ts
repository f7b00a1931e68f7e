// Latency percentiles, and the check of a latency class.
import { describe, expect, it } from "vitest";
import { computePercentiles, checkSlo } from "../../../src/toolchain/evaluate/slo.ts";

const hundred = computePercentiles(Array.from({ length: 100 }, (_, index) => index + 1));

describe("computePercentiles", () => {
  it("returns the smallest values that the shares do not exceed", () => {
    expect(hundred).toEqual({ p50Ms: 50, p95Ms: 95, p99Ms: 99, n: 100 });
    expect(computePercentiles([7])).toEqual({ p50Ms: 7, p95Ms: 7, p99Ms: 7, n: 1 });
  });
});

describe("checkSlo", () => {
  it("is met up to the class and missed above it", () => {
    expect(checkSlo(100, hundred)).toEqual({ kind: "met", classMs: 100, p99Ms: 99 });
    expect(checkSlo(50, hundred)).toEqual({ kind: "missed", classMs: 50, p99Ms: 99 });
    expect(checkSlo(undefined, hundred)).toEqual({ kind: "none" });
  });
});
