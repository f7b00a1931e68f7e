import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createCircuitBreaker } from "../../src/cache/circuit-breaker.ts";
import { ManualClock } from "../../src/core/clock.ts";

const setUp = () => {
  const clock = new ManualClock(1_000_000);
  return {
    clock,
    breaker: createCircuitBreaker({ clock, minOpenMs: 1_000, maxOpenMs: 4_000, probeMs: 500 }),
  };
};

describe("the circuit breaker", () => {
  it("lets all calls through while they succeed, and none after one failed", () => {
    const { breaker } = setUp();
    expect([breaker.enter(true), breaker.enter(true)]).toEqual([true, true]);
    breaker.succeeded();
    breaker.failed();
    expect([breaker.enter(true), breaker.enter(false), breaker.state.is]).toEqual([
      false,
      false,
      "open",
    ]);
  });

  it("is probed by one call that nobody waits for, and closed by its success", () => {
    const { breaker, clock } = setUp();
    breaker.failed();
    clock.advance(999);
    expect(breaker.enter(false)).toBe(false);
    clock.advance(1);
    expect([
      breaker.enter(true),
      breaker.enter(false),
      breaker.enter(false),
      breaker.state.is,
    ]).toEqual([false, true, false, "half-open"]);
    breaker.succeeded();
    expect([breaker.enter(true), breaker.state.is]).toEqual([true, "closed"]);
  });

  it("is probed by one that somebody waits for when no other came", () => {
    const { breaker, clock } = setUp();
    breaker.failed();
    clock.advance(2_000);
    expect([breaker.enter(true), breaker.enter(true)]).toEqual([true, false]);
  });

  it("stays open for twice as long after each failed probe, up to its bound", () => {
    const { breaker, clock } = setUp();
    breaker.failed();
    for (const openMs of [1_000, 2_000, 4_000, 4_000]) {
      clock.advance(openMs - 1);
      expect(breaker.enter(false)).toBe(false);
      clock.advance(1);
      expect(breaker.enter(false)).toBe(true);
      breaker.failed();
    }
  });

  it("lets another probe go when one is never heard of again", () => {
    const { breaker, clock } = setUp();
    breaker.failed();
    clock.advance(1_000);
    expect(breaker.enter(false)).toBe(true);
    clock.advance(499);
    expect(breaker.enter(false)).toBe(false);
    clock.advance(1);
    expect(breaker.enter(false)).toBe(true);
  });

  it("heeds no call from before it opened", () => {
    const { breaker, clock } = setUp();
    breaker.failed();
    breaker.succeeded();
    expect(breaker.enter(true)).toBe(false);
    clock.advance(500);
    breaker.failed();
    clock.advance(500);
    expect(breaker.enter(false)).toBe(true);
  });

  it("never makes more than one awaited call of a store that is away in its shortest time, and always asks again some time", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(700), fc.boolean()), { minLength: 1, maxLength: 60 }),
        (steps) => {
          const { breaker, clock } = setUp();
          let lastMs = Number.NEGATIVE_INFINITY;
          for (const [passMs, isAwaited] of steps) {
            clock.advance(passMs);
            if (!breaker.enter(isAwaited)) continue;
            expect(clock.now() - lastMs).toBeGreaterThanOrEqual(1_000);
            lastMs = clock.now();
            breaker.failed();
          }
          clock.advance(8_000);
          expect(breaker.enter(true)).toBe(true);
        },
      ),
    );
  });
});
