// Contract of RateLimiter.
/* oxlint-disable max-lines-per-function -- a contract is one suite, whose cases share the fixture of a driver */
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import type { RateLimiter } from "../../src/http/access/rate-limiter.ts";

export function rateLimiterContract(
  driver: string,
  create: (clock: ManualClock) => Promise<RateLimiter>,
): void {
  describe(`RateLimiter: ${driver}`, () => {
    let clock: ManualClock;
    let limiter: RateLimiter;
    let subject: string;
    beforeEach(async () => {
      clock = new ManualClock(1_800_000_000_000);
      limiter = await create(clock);
      subject = `contract-${Math.random()}`;
    });
    const limit = { requests: 3, windowSeconds: 60 };

    it("allows a burst up to the limit, and reports the remaining requests", async () => {
      expect(await limiter.take(subject, limit)).toEqual({
        allowed: true,
        remaining: 2,
        resetSeconds: 20,
        retryAfterSeconds: 0,
      });
      expect(await limiter.take(subject, limit)).toEqual({
        allowed: true,
        remaining: 1,
        resetSeconds: 40,
        retryAfterSeconds: 0,
      });
      expect(await limiter.take(subject, limit)).toEqual({
        allowed: true,
        remaining: 0,
        resetSeconds: 60,
        retryAfterSeconds: 0,
      });
      expect(await limiter.take(subject, limit)).toEqual({
        allowed: false,
        remaining: 0,
        resetSeconds: 60,
        retryAfterSeconds: 20,
      });
    });

    it("allows one more request exactly after the reported time", async () => {
      for (let count = 0; count < 3; count++) await limiter.take(subject, limit);
      clock.advance(19_999);
      expect(await limiter.take(subject, limit)).toMatchObject({
        allowed: false,
        retryAfterSeconds: 1,
      });
      clock.advance(1);
      expect(await limiter.take(subject, limit)).toMatchObject({ allowed: true, remaining: 0 });
      expect(await limiter.take(subject, limit)).toMatchObject({ allowed: false });
    });

    it("allows the full limit again after the window, and no more", async () => {
      for (let count = 0; count < 3; count++) await limiter.take(subject, limit);
      clock.advance(600_000);
      expect(await limiter.take(subject, limit)).toMatchObject({ allowed: true, remaining: 2 });
    });

    it("does not count rejected requests", async () => {
      for (let count = 0; count < 50; count++) await limiter.take(subject, limit);
      clock.advance(20_000);
      expect(await limiter.take(subject, limit)).toMatchObject({ allowed: true });
    });

    it("counts each subject separately", async () => {
      for (let count = 0; count < 4; count++) await limiter.take(subject, limit);
      expect(await limiter.take(`${subject}-other`, limit)).toMatchObject({
        allowed: true,
        remaining: 2,
      });
    });

    it("enforces the limit for concurrent requests", async () => {
      const decisions = await Promise.all(
        Array.from({ length: 40 }, () => limiter.take(subject, { requests: 7, windowSeconds: 10 })),
      );
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(7);
    });
  });
}
