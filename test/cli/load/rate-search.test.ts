// The search for the highest rate, against servers that are known to hold one.
import { describe, expect, it } from "vitest";
import { createRateSearch, type RateSearch } from "../../../src/cli/load/rate-search.ts";

/** Asks until the search is done. @returns the rates that were tried */
function run(search: RateSearch, holds: (rate: number, trial: number) => boolean): number[] {
  const tried: number[] = [];
  while (search.nextRate !== undefined && tried.length < 100) {
    tried.push(search.nextRate);
    search.record(holds(search.nextRate, tried.length));
  }
  return tried;
}

describe("createRateSearch", () => {
  it.each([
    ["within where it began", 1_000],
    ["far above", 3_000],
    ["far below", 150],
  ])("finds a rate %s to its resolution", (_where, limit) => {
    const search = createRateSearch({ low: 600, high: 1_200, resolution: 1.04 });
    run(search, (rate) => rate <= limit);
    expect(search.highestRate).toBeGreaterThan(limit / 1.04);
    expect(search.highestRate).toBeLessThanOrEqual(limit);
  });

  it("takes one failure for chance, two for the limit", () => {
    const search = createRateSearch({ low: 600, high: 1_200, resolution: 1.04 });
    const tried = run(search, (rate, trial) => trial !== 1 && rate <= 1_000);
    expect(tried.slice(0, 4)).toEqual([600, 600, 1_200, 1_200]);
    expect(search.highestRate).toBeGreaterThan(1_000 / 1.04);
  });

  it("stops if no rate meets the objective, and if every rate does", () => {
    const none = createRateSearch({ low: 600, high: 1_200, resolution: 1.04 });
    expect(run(none, () => false).at(-1)).toBeGreaterThan(100);
    expect(none.highestRate).toBeUndefined();
    const all = createRateSearch({ low: 600, high: 1_200, resolution: 1.04 });
    expect(run(all, () => true).at(-1)).toBe(all.highestRate);
    expect(all.highestRate).toBeLessThan(10_000);
  });
});
