// Permits, and the clock that runs are measured with.
import { expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { createConcurrencyLimiter } from "../../../src/region/server/batching/concurrency-limiter.ts";
import { createPreciseClock } from "../../../src/region/server/batching/precise-clock.ts";

it("no more are taken than there are; one that is given back can be taken again, but only once", () => {
  const permits = createConcurrencyLimiter(2);
  const [first] = [permits.acquire(), permits.acquire()];
  expect(() => permits.acquire()).toThrow(
    expect.objectContaining({
      code: "queue_full",
      status: 503,
      retryAfterSeconds: 1,
      message: expect.stringContaining("Exceeds maximum queue size of 2"),
    }),
  );
  first?.();
  first?.();
  permits.acquire();
  expect(() => permits.acquire()).toThrow(expect.objectContaining({ code: "queue_full" }));
});

it("the precise clock stays with the system's, and has fractions", () => {
  const clock = createPreciseClock();
  const apartMs = Array.from({ length: 1_000 }, () => Math.abs(clock.now() - systemClock.now()));
  expect(Math.max(...apartMs)).toBeLessThanOrEqual(4);
  expect(
    Array.from({ length: 100 }, () => clock.now()).some((nowMs) => !Number.isInteger(nowMs)),
  ).toBe(true);
});
