// Tests the bounds of a percentile: MLPerf's sample counts, and the error rate of a bound.
import { describe, expect, it } from "vitest";
import {
  isWithinBound,
  MIN_P99_SAMPLES,
  maxViolations,
  minSamples,
} from "../../../src/cli/load/percentile-bound.ts";
import { createRandom } from "../../../src/cli/load/random.ts";

describe("isWithinBound", () => {
  it.each([
    [458, 0, false],
    [459, 0, true],
    [661, 1, false],
    [MIN_P99_SAMPLES, 1, true],
    [MIN_P99_SAMPLES, 2, false],
    [1_000_000, 9_700, true],
    [1_000_000, 9_900, false],
  ])("of %i samples with %i over the bound on a p99: %s", (n, over, expected) =>
    expect(isWithinBound(n, over, 0.99)).toBe(expected),
  );

  it("errs in less than 1 of 100 runs if the percentile is just over the bound", () => {
    const random = createRandom(7);
    const [runs, n, share] = [2_000, 700, 0.99];
    let wrong = 0;
    for (let run = 0; run < runs; run++) {
      let over = 0;
      for (let sample = 0; sample < n; sample++) over += random.next() > share ? 1 : 0;
      if (isWithinBound(n, over, share)) wrong++;
    }
    expect(wrong / runs).toBeLessThan(0.015); // 1 % and four standard deviations
  });
});

describe("maxViolations", () => {
  it.each([100, 459, 662, 5_000, 300_000])(
    "is the last count with which %i samples show a p99",
    (n) => {
      const most = maxViolations(n, 0.99) ?? -1;
      expect(isWithinBound(n, most + 1, 0.99)).toBe(false);
      expect(most < 0 || isWithinBound(n, most, 0.99)).toBe(true);
    },
  );

  it("is undefined below the minimum number of samples", () => {
    for (const share of [0.5, 0.9, 0.99, 0.999]) {
      const enough = minSamples(share);
      expect(maxViolations(enough - 1, share)).toBeUndefined();
      expect(maxViolations(enough, share)).toBe(0);
    }
  });
});
