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

describe("a circuit breaker", () => {
  it("opens after five failures in a row, which a success interrupts and a cancelled call does not", () => {
    fail(4);
    succeed(1);
    fail(4);
    breaker.tryAcquire(100)?.cancel();
    expect([breaker.state, breaker.consecutiveFailures]).toEqual(["closed", 4]);
    fail(1);
    expect([
      breaker.state,
      breaker.allowsCalls,
      breaker.tryAcquire(100),
      breaker.remainingOpenMs,
    ]).toEqual(["open", false, undefined, 1_000]);
  });

  it("opens when half of the last calls have failed, and forgets those of more than half a minute ago", () => {
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

  it("lets one call through at a time when its time is over, and closes by its success", () => {
    fail(5);
    clock.advance(999);
    expect(breaker.state).toBe("open");
    clock.advance(1);
    const probe = breaker.tryAcquire(100);
    expect([
      breaker.state,
      probe === undefined,
      breaker.allowsCalls,
      breaker.tryAcquire(100),
    ]).toEqual(["half_open", false, false, undefined]);
    probe?.recordSuccess();
    expect([breaker.state, breaker.consecutiveFailures, changes]).toEqual([
      "closed",
      0,
      ["open", "half_open", "closed"],
    ]);
  });

  it("stays open twice as long after each failed probe, thirty seconds at most", () => {
    fail(5);
    const waits = Array.from({ length: 7 }, () => {
      const waitedMs = breaker.remainingOpenMs;
      clock.advance(waitedMs);
      breaker.tryAcquire(100)?.recordFailure();
      return waitedMs;
    });
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
  });

  it("spreads the probes of many isolates", () => {
    const waits = [0, 0.999].map((random) => {
      const one = createCircuitBreaker({ clock, random: () => random });
      for (let call = 0; call < 5; call++) one.tryAcquire(100)?.recordFailure();
      return Math.round(one.remainingOpenMs);
    });
    expect(waits).toEqual([750, 1_250]);
  });

  it("gives a cancelled probe's place to the next, and that of one which was never heard of after its time", () => {
    fail(5);
    clock.advance(1_000);
    breaker.tryAcquire(100)?.cancel();
    const lost = breaker.tryAcquire(100);
    clock.advance(1_099);
    expect(breaker.allowsCalls).toBe(false);
    clock.advance(1);
    const next = breaker.tryAcquire(100);
    lost?.recordFailure(); // too late: it counts no more
    expect(breaker.state).toBe("half_open");
    next?.recordSuccess();
    expect(breaker.state).toBe("closed");
  });

  it("takes no word from a call of before it opened", () => {
    const early = Array.from({ length: 7 }, () => breaker.tryAcquire(100));
    for (const call of early.slice(0, 5)) call?.recordFailure();
    early[5]?.recordSuccess();
    expect(breaker.state).toBe("open");
    clock.advance(1_000);
    breaker.tryAcquire(100)?.recordSuccess();
    early[6]?.recordFailure();
    expect([breaker.state, breaker.consecutiveFailures]).toEqual(["closed", 0]);
  });

  it("probes early when the other side is known to be back", () => {
    breaker.halfOpen();
    expect(breaker.state).toBe("closed");
    fail(5);
    breaker.halfOpen();
    expect(breaker.state).toBe("half_open");
  });

  it("never stays shut for ever, whatever happens to its calls", () => {
    const event = fc.record({
      passMs: fc.nat(3_000),
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
        for (const { passMs, end } of events) {
          const call = breaker.tryAcquire(100);
          clock.advance(passMs);
          if (end !== "lost") call?.[end]();
        }
        clock.advance(37_500); // the longest open time with its jitter, or a lost probe's
        expect(breaker.allowsCalls).toBe(true);
      }),
    );
  });
});
