import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createCacheCircuitBreaker } from "../../src/cache/circuit-breaker.ts";
import { ManualClock } from "../../src/core/clock.ts";

const createBreakerFixture = () => {
  const clock = new ManualClock(1_000_000);
  return {
    clock,
    breaker: createCacheCircuitBreaker({ clock, minOpenMs: 1_000, maxOpenMs: 4_000, probeMs: 500 }),
  };
};

describe("the circuit breaker", () => {
  it("lets all calls through while they succeed, and none after one failed", () => {
    const { breaker } = createBreakerFixture();
    expect([breaker.tryAcquire(true), breaker.tryAcquire(true)]).toEqual([true, true]);
    breaker.recordSuccess();
    breaker.recordFailure();
    expect([breaker.tryAcquire(true), breaker.tryAcquire(false), breaker.state.kind]).toEqual([
      false,
      false,
      "open",
    ]);
  });

  it("is probed by one call that nobody waits for, and closed by its success", () => {
    const { breaker, clock } = createBreakerFixture();
    breaker.recordFailure();
    clock.advance(999);
    expect(breaker.tryAcquire(false)).toBe(false);
    clock.advance(1);
    expect([
      breaker.tryAcquire(true),
      breaker.tryAcquire(false),
      breaker.tryAcquire(false),
      breaker.state.kind,
    ]).toEqual([false, true, false, "half-open"]);
    breaker.recordSuccess();
    expect([breaker.tryAcquire(true), breaker.state.kind]).toEqual([true, "closed"]);
  });

  it("is probed by one that somebody waits for when no other came", () => {
    const { breaker, clock } = createBreakerFixture();
    breaker.recordFailure();
    clock.advance(2_000);
    expect([breaker.tryAcquire(true), breaker.tryAcquire(true)]).toEqual([true, false]);
  });

  it("stays open for twice as long after each failed probe, up to its bound", () => {
    const { breaker, clock } = createBreakerFixture();
    breaker.recordFailure();
    for (const openMs of [1_000, 2_000, 4_000, 4_000]) {
      clock.advance(openMs - 1);
      expect(breaker.tryAcquire(false)).toBe(false);
      clock.advance(1);
      expect(breaker.tryAcquire(false)).toBe(true);
      breaker.recordFailure();
    }
  });

  it("lets another probe go when one is never heard of again", () => {
    const { breaker, clock } = createBreakerFixture();
    breaker.recordFailure();
    clock.advance(1_000);
    expect(breaker.tryAcquire(false)).toBe(true);
    clock.advance(499);
    expect(breaker.tryAcquire(false)).toBe(false);
    clock.advance(1);
    expect(breaker.tryAcquire(false)).toBe(true);
  });

  it("heeds no call from before it opened", () => {
    const { breaker, clock } = createBreakerFixture();
    breaker.recordFailure();
    breaker.recordSuccess();
    expect(breaker.tryAcquire(true)).toBe(false);
    clock.advance(500);
    breaker.recordFailure();
    clock.advance(500);
    expect(breaker.tryAcquire(false)).toBe(true);
  });

  it("never makes more than one awaited call of a store that is away in its shortest time, and always asks again some time", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(700), fc.boolean()), { minLength: 1, maxLength: 60 }),
        (steps) => {
          const { breaker, clock } = createBreakerFixture();
          let lastMs = Number.NEGATIVE_INFINITY;
          for (const [passMs, isAwaited] of steps) {
            clock.advance(passMs);
            if (!breaker.tryAcquire(isAwaited)) continue;
            expect(clock.now() - lastMs).toBeGreaterThanOrEqual(1_000);
            lastMs = clock.now();
            breaker.recordFailure();
          }
          clock.advance(8_000);
          expect(breaker.tryAcquire(true)).toBe(true);
        },
      ),
    );
  });
});
