// The circuit breaker of a region: when it opens, how it probes, and how it closes.
import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import {
  type CircuitBreaker,
  createCircuitBreaker,
} from "../../../src/region/client/circuit-breaker.ts";

let clock: ManualClock;
let changes: string[];
let breaker: CircuitBreaker;
beforeEach(() => {
  clock = new ManualClock(1_000_000);
  changes = [];
  breaker = createCircuitBreaker({
    clock,
    random: () => 0.5,
    onStateChange: (to) => changes.push(to),
  });
});

const fail = (times: number) =>
  Array.from({ length: times }, () => breaker.tryAcquire(100)?.recordFailure());
const succeed = (times: number) =>
  Array.from({ length: times }, () => breaker.tryAcquire(100)?.recordSuccess());

describe("a closed circuit", () => {
  it("opens after five failures in a row; only a success interrupts the row, a canceled call does not", () => {
    fail(4);
    succeed(1);
    fail(4);
    breaker.tryAcquire(100)?.cancel();
    expect(breaker).toMatchObject({ state: "closed", consecutiveFailures: 4 });
    fail(1);
    expect(breaker).toMatchObject({ state: "open", allowsCalls: false, remainingOpenMs: 1_000 });
    expect(breaker.tryAcquire(100)).toBeUndefined();
  });

  it("opens when half of the recent calls have failed, and forgets calls after 30 seconds", () => {
    const mixed = () => {
      for (let pair = 0; pair < 9; pair++) {
        fail(1);
        succeed(1);
      }
    };
    mixed();
    clock.advance(30_001);
    mixed();
    expect(breaker.state).toBe("closed");
    succeed(1);
    fail(1);
    expect(breaker.state).toBe("open");
  });

  it("stays closed when a probe is requested early", () => {
    breaker.halfOpen();
    expect(breaker.state).toBe("closed");
  });
});

describe("an open circuit", () => {
  it("allows one probe at a time after its open time, and closes when the probe succeeds", () => {
    fail(5);
    clock.advance(999);
    expect(breaker.state).toBe("open");
    clock.advance(1);
    const probe = breaker.tryAcquire(100);
    expect(probe).toBeDefined();
    expect(breaker).toMatchObject({ state: "half_open", allowsCalls: false });
    expect(breaker.tryAcquire(100)).toBeUndefined();
    probe?.recordSuccess();
    expect(breaker).toMatchObject({ state: "closed", consecutiveFailures: 0 });
    expect(changes).toEqual(["open", "half_open", "closed"]);
  });

  it("doubles its open time after each failed probe, to at most 30 seconds", () => {
    fail(5);
    const openTimesMs = Array.from({ length: 7 }, () => {
      const waitedMs = breaker.remainingOpenMs;
      clock.advance(waitedMs);
      breaker.tryAcquire(100)?.recordFailure();
      return waitedMs;
    });
    expect(openTimesMs).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
  });

  it("randomizes its open time, which spreads the probes of many isolates", () => {
    const openTimesMs = [0, 0.999].map((random) => {
      const jittered = createCircuitBreaker({ clock, random: () => random });
      for (let call = 0; call < 5; call++) jittered.tryAcquire(100)?.recordFailure();
      return Math.round(jittered.remainingOpenMs);
    });
    expect(openTimesMs).toEqual([750, 1_250]);
  });
});

describe("the probes of a circuit breaker", () => {
  it("are replaced after a cancellation, and after the timeout of a lost probe", () => {
    fail(5);
    clock.advance(1_000);
    breaker.tryAcquire(100)?.cancel();
    const lost = breaker.tryAcquire(100);
    clock.advance(1_099);
    expect(breaker.allowsCalls).toBe(false);
    clock.advance(1);
    const next = breaker.tryAcquire(100);
    // The result of a probe no longer counts after its timeout.
    lost?.recordFailure();
    expect(breaker.state).toBe("half_open");
    next?.recordSuccess();
    expect(breaker.state).toBe("closed");
  });
});

describe("a circuit breaker", () => {
  it("ignores the results of calls that started before it opened", () => {
    const early = Array.from({ length: 7 }, () => breaker.tryAcquire(100));
    for (const call of early.slice(0, 5)) call?.recordFailure();
    early[5]?.recordSuccess();
    expect(breaker.state).toBe("open");
    clock.advance(1_000);
    breaker.tryAcquire(100)?.recordSuccess();
    early[6]?.recordFailure();
    expect(breaker).toMatchObject({ state: "closed", consecutiveFailures: 0 });
  });

  it("probes early when a health check has succeeded", () => {
    fail(5);
    breaker.halfOpen();
    expect(breaker.state).toBe("half_open");
  });

  it("always allows calls again in the end, for any results of its calls", () => {
    const event = fc.record({
      elapsedMs: fc.nat(3_000),
      end: fc.constantFrom(
        "recordSuccess" as const,
        "recordFailure" as const,
        "cancel" as const,
        "lost" as const,
      ),
    });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), (events) => {
        const clock = new ManualClock();
        const breaker = createCircuitBreaker({ clock, random: () => 0.9 });
        for (const { elapsedMs, end } of events) {
          const call = breaker.tryAcquire(100);
          clock.advance(elapsedMs);
          if (end !== "lost") call?.[end]();
        }
        clock.advance(37_500); // The longest open time with its jitter, which exceeds the timeout of a lost probe.
        expect(breaker.allowsCalls).toBe(true);
      }),
    );
  });
});
