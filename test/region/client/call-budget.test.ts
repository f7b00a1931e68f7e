import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createCallBudget } from "../../../src/region/client/call-budget.ts";

describe("the budget of extra calls", () => {
  it("allows at most its share and burst over any window, and nearly that where it is wanted", () => {
    const options = fc.record({ share: fc.double({ min: 0, max: 0.5, noNaN: true }), burst: fc.integer({ min: 1, max: 20 }) });
    const wishes = fc.array(fc.nat(3), { maxLength: 400 }); // extra calls that each call would like
    fc.assert(
      fc.property(options, wishes, fc.nat(400), ({ share, burst }, wanted, from) => {
        const budget = createCallBudget({ share, burst });
        const made = wanted.map((wishes) => {
          budget.earn();
          return Array.from({ length: wishes }, () => budget.spend()).filter(Boolean).length;
        });
        const window = made.slice(from);
        const extra = window.reduce((sum, one) => sum + one, 0);
        expect(extra).toBeLessThanOrEqual(share * window.length + burst + 1e-6);
      }),
    );
    const budget = createCallBudget({ share: 0.03, burst: 10 });
    const spent = Array.from({ length: 10_000 }, () => (budget.earn(), budget.spend())).filter(Boolean).length;
    expect([spent >= 299, spent <= 301]).toEqual([true, true]);
  });

  it("lets a young isolate make one, and none where they are forbidden", () => {
    const young = createCallBudget({ share: 0.03, burst: 10 });
    expect([young.spend(), young.spend()]).toEqual([true, false]);
    const none = createCallBudget({ share: 0, burst: 10 });
    expect(none.spend()).toBe(false);
  });
});
