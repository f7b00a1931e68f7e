import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRetryBudget } from "../../../src/region/client/retry-budget.ts";

const usual = { ratio: 0.03, burst: 10, retryReserve: 5 };

describe("the budget of extra calls", () => {
  it("allows at most its share and burst over any window, and nearly that where it is wanted", () => {
    const options = fc.record({
      share: fc.double({ min: 0, max: 0.5, noNaN: true }),
      burst: fc.integer({ min: 1, max: 20 }),
      reserve: fc.integer({ min: 0, max: 20 }),
    });
    const wishes = fc.array(
      fc.array(fc.constantFrom("hedge" as const, "retry" as const), { maxLength: 3 }),
      { maxLength: 400 },
    ); // of each call
    fc.assert(
      fc.property(options, wishes, fc.nat(400), ({ share, burst, reserve }, wanted, from) => {
        const budget = createRetryBudget({ ratio: share, burst, retryReserve: reserve });
        const made = wanted.map((wishes) => {
          budget.deposit();
          return wishes.filter((kind) => budget.tryWithdraw(kind)).length;
        });
        const window = made.slice(from);
        const extra = window.reduce((sum, one) => sum + one, 0);
        expect(extra).toBeLessThanOrEqual(share * window.length + burst + 1e-6);
      }),
    );
    const budget = createRetryBudget(usual);
    const spent = Array.from(
      { length: 10_000 },
      () => (budget.deposit(), budget.tryWithdraw("hedge")),
    ).filter(Boolean).length;
    expect([spent >= 294, spent <= 301]).toEqual([true, true]);
  });

  it("lets a young isolate make one, and none where they are forbidden", () => {
    for (const kind of ["hedge", "retry"] as const) {
      const young = createRetryBudget(usual);
      young.deposit();
      expect([young.tryWithdraw(kind), young.tryWithdraw(kind)]).toEqual([true, false]);
    }
    const none = createRetryBudget({ ...usual, ratio: 0 });
    none.deposit();
    expect(none.tryWithdraw("retry")).toBe(false);
  });

  it("keeps some for retries, however many hedges are wanted", () => {
    const budget = createRetryBudget(usual);
    for (let call = 0; call < 1_000; call++) {
      budget.deposit();
      budget.tryWithdraw("hedge");
    }
    expect(Array.from({ length: 7 }, () => budget.tryWithdraw("retry"))).toEqual([
      true,
      true,
      true,
      true,
      true,
      false,
      false,
    ]);
  });
});
