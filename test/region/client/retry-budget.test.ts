// The budget of hedges and retries: its share, its burst, and its reserve for retries.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRetryBudget } from "../../../src/region/client/retry-budget.ts";

const defaultOptions = { ratio: 0.03, burst: 10, retryReserve: 5 };

describe("the budget of extra calls", () => {
  it("allows at most its share and burst over any window, and nearly all of it on demand", () => {
    const options = fc.record({
      share: fc.double({ min: 0, max: 0.5, noNaN: true }),
      burst: fc.integer({ min: 1, max: 20 }),
      reserve: fc.integer({ min: 0, max: 20 }),
    });
    // The extra calls that each call wants to make.
    const demands = fc.array(
      fc.array(fc.constantFrom("hedge" as const, "retry" as const), { maxLength: 3 }),
      { maxLength: 400 },
    );
    fc.assert(
      fc.property(options, demands, fc.nat(400), ({ share, burst, reserve }, demanded, from) => {
        const budget = createRetryBudget({ ratio: share, burst, retryReserve: reserve });
        const extraCalls = demanded.map((kinds) => {
          budget.deposit();
          return kinds.filter((kind) => budget.tryWithdraw(kind)).length;
        });
        const window = extraCalls.slice(from);
        const total = window.reduce((sum, count) => sum + count, 0);
        expect(total).toBeLessThanOrEqual(share * window.length + burst + 1e-6);
      }),
    );
    const budget = createRetryBudget(defaultOptions);
    const spent = Array.from(
      { length: 10_000 },
      () => (budget.deposit(), budget.tryWithdraw("hedge")),
    ).filter(Boolean).length;
    expect(spent).toBeGreaterThanOrEqual(294);
    expect(spent).toBeLessThanOrEqual(301);
  });

  it("allows one extra call in a new isolate, and none at a ratio of 0", () => {
    for (const kind of ["hedge", "retry"] as const) {
      const newBudget = createRetryBudget(defaultOptions);
      newBudget.deposit();
      expect(newBudget.tryWithdraw(kind)).toBe(true);
      expect(newBudget.tryWithdraw(kind)).toBe(false);
    }
    const none = createRetryBudget({ ...defaultOptions, ratio: 0 });
    none.deposit();
    expect(none.tryWithdraw("retry")).toBe(false);
  });

  it("keeps a reserve of five retries for any number of hedges", () => {
    const budget = createRetryBudget(defaultOptions);
    for (let call = 0; call < 1_000; call++) {
      budget.deposit();
      budget.tryWithdraw("hedge");
    }
    const retries = Array.from({ length: 7 }, () => budget.tryWithdraw("retry"));
    expect(retries.lastIndexOf(true)).toBe(4);
    expect(retries.indexOf(false)).toBe(5);
  });
});
