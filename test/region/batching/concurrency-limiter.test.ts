// The concurrency limiter, and the clock that measures runs.
import { expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { createConcurrencyLimiter } from "../../../src/region/server/batching/concurrency-limiter.ts";
import { createPreciseClock } from "../../../src/region/server/batching/precise-clock.ts";

it("a concurrency limiter grants at most its number of permits, and grants a released one once more", () => {
  const permits = createConcurrencyLimiter(2);
  const [first] = [permits.acquire(), permits.acquire()];
  expect(() => permits.acquire()).toThrow(
    expect.objectContaining({
      code: "queue_full",
      status: 503,
      retryAfterSeconds: 1,
    }),
  );
  first?.();
  first?.();
  permits.acquire();
  expect(() => permits.acquire()).toThrow(expect.objectContaining({ code: "queue_full" }));
});

it("a precise clock follows the system clock, and has fractions of a millisecond", () => {
  const clock = createPreciseClock();
  const apartMs = Array.from({ length: 1_000 }, () => Math.abs(clock.now() - systemClock.now()));
  expect(Math.max(...apartMs)).toBeLessThanOrEqual(4);
  expect(
    Array.from({ length: 100 }, () => clock.now()).some((nowMs) => !Number.isInteger(nowMs)),
  ).toBe(true);
});
