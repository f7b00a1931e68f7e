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
  it("allows all calls while they succeed, and none after a failure", () => {
    const { breaker } = createBreakerFixture();
    expect(breaker.tryAcquire(true)).toBe(true);
    expect(breaker.tryAcquire(true)).toBe(true);
    breaker.recordSuccess();
    breaker.recordFailure();
    expect({
      allowsAwaited: breaker.tryAcquire(true),
      allowsBackground: breaker.tryAcquire(false),
      state: breaker.state.kind,
    }).toEqual({ allowsAwaited: false, allowsBackground: false, state: "open" });
  });

  it("is probed by one background call, whose success closes it", () => {
    const { breaker, clock } = createBreakerFixture();
    breaker.recordFailure();
    clock.advance(999);
    expect(breaker.tryAcquire(false)).toBe(false);
    clock.advance(1);
    expect({
      allowsAwaited: breaker.tryAcquire(true),
      allowsBackground: breaker.tryAcquire(false),
      allowsSecondBackground: breaker.tryAcquire(false),
      state: breaker.state.kind,
    }).toEqual({
      allowsAwaited: false,
      allowsBackground: true,
      allowsSecondBackground: false,
      state: "half-open",
    });
    breaker.recordSuccess();
    expect({ allowsAwaited: breaker.tryAcquire(true), state: breaker.state.kind }).toEqual({
      allowsAwaited: true,
      state: "closed",
    });
  });

  it("is probed by one awaited call if no background call came", () => {
    const { breaker, clock } = createBreakerFixture();
    breaker.recordFailure();
    clock.advance(2_000);
    expect(breaker.tryAcquire(true)).toBe(true);
    expect(breaker.tryAcquire(true)).toBe(false);
  });
});

describe("an open circuit breaker", () => {
  it("stays open twice as long after each failed probe, up to its maximum", () => {
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

  it("allows another probe if one ends without a result", () => {
    const { breaker, clock } = createBreakerFixture();
    breaker.recordFailure();
    clock.advance(1_000);
    expect(breaker.tryAcquire(false)).toBe(true);
    clock.advance(499);
    expect(breaker.tryAcquire(false)).toBe(false);
    clock.advance(1);
    expect(breaker.tryAcquire(false)).toBe(true);
  });

  it("ignores the results of calls from before it opened", () => {
    const { breaker, clock } = createBreakerFixture();
    breaker.recordFailure();
    breaker.recordSuccess();
    expect(breaker.tryAcquire(true)).toBe(false);
    clock.advance(500);
    breaker.recordFailure();
    clock.advance(500);
    expect(breaker.tryAcquire(false)).toBe(true);
  });

  it("allows at most one call per minimum open time while the store is away, and always probes again (property)", () => {
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
