import * as fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { type LocalRedis, startLocalRedis } from "../../../src/cli/local/redis.ts";
import { ManualClock } from "../../../src/core/clock.ts";
import { createIsolateRateLimiter } from "../../../src/http/access/drivers/isolate-limiter.ts";
import { createRedisRateLimiter } from "../../../src/http/access/drivers/redis-limiter.ts";
import { rateLimiterContract } from "../../contract/rate-limiter.ts";
import { hasRedisServer } from "../../support/redis.ts";
import { startTcpProxy, type TcpProxy } from "../../support/tcp-proxy.ts";

rateLimiterContract("isolate", async (clock) => createIsolateRateLimiter(clock));

it("never allows more than the burst and what came back since, in any stretch of time", () => {
  const requests = fc.integer({ min: 1, max: 50 });
  const windowSeconds = fc.integer({ min: 1, max: 120 });
  const gapsMs = fc.array(
    fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 5_000 })),
    { minLength: 1, maxLength: 300 },
  );
  fc.assert(
    fc.property(requests, windowSeconds, gapsMs, (most, seconds, gaps) => {
      const clock = new ManualClock(1_800_000_000_000);
      const limiter = createIsolateRateLimiter(clock);
      const allowedAtMs: number[] = [];
      for (const gap of gaps) {
        clock.advance(gap);
        if (limiter.takeSync("one", { requests: most, windowSeconds: seconds }).allowed)
          allowedAtMs.push(clock.now());
      }
      allowedAtMs.forEach((from, first) => {
        for (let last = first; last < allowedAtMs.length; last++) {
          const spanMs = (allowedAtMs[last] ?? 0) - from;
          expect(last - first + 1).toBeLessThanOrEqual(
            most + Math.floor((spanMs / 1000 / seconds) * most + 0.001),
          );
        }
      });
    }),
  );
});

describe.skipIf(!hasRedisServer)("the limiter on Redis (needs a redis-server on the PATH)", () => {
  let redis: LocalRedis;
  let proxy: TcpProxy;
  beforeAll(async () => {
    const started = await startLocalRedis({ port: 0, onLine: () => {} });
    if (started === undefined) throw new Error("redis-server did not start");
    redis = started;
    proxy = await startTcpProxy();
    proxy.target = redis.url;
  });
  afterAll(async () => {
    await proxy?.close();
    await redis?.stop();
  });

  afterEach(() => {
    proxy.behavior = "forwards";
  });

  const limit = { requests: 5, windowSeconds: 60 };
  const limiterOf = (
    clock: ManualClock,
    more: {
      url?: string;
      token?: string;
      timeoutMs?: number;
      onFailure?: (error: unknown) => void;
    } = {},
  ) =>
    createRedisRateLimiter({
      url: redis.url,
      token: redis.token,
      timeoutMs: 5_000,
      clock,
      ...more,
    });

  rateLimiterContract("redis", async (clock) => limiterOf(clock));

  it("counts the requests of all isolates together, and lets none of them ask again before its time", async () => {
    const clock = new ManualClock(1_800_000_000_000);
    const isolates = Array.from({ length: 4 }, () => limiterOf(clock, { url: proxy.url }));
    const takeAll = async () =>
      (
        await Promise.all(
          isolates.flatMap((isolate) => [
            isolate.take("shared", limit),
            isolate.take("shared", limit),
          ]),
        )
      ).filter(({ allowed }) => allowed).length;
    expect(await takeAll()).toBe(5);
    for (const isolate of isolates) await isolate.take("shared", limit); // each has now been refused by Redis
    const sentBefore = proxy.bytesSent;
    expect(await takeAll()).toBe(0);
    expect(proxy.bytesSent).toBe(sentBefore);
    clock.advance(12_000);
    expect(await takeAll()).toBe(1);
  });

  it.each([
    ["resets the connection", "resets", undefined],
    ["hangs", "hangs", undefined],
    ["knows the token no more", "forwards", "wrong"],
  ] as const)(
    "goes on by its own count when Redis %s: one time-out, then a pause",
    async (_, mode, wrongToken) => {
      const clock = new ManualClock(1_800_000_000_000);
      const failures: unknown[] = [];
      const limiter = limiterOf(clock, {
        url: proxy.url,
        token: wrongToken ?? redis.token,
        timeoutMs: 200,
        onFailure: (error) => failures.push(error),
      });
      proxy.behavior = mode;
      const startedAtMs = performance.now();
      const decisions = [];
      for (let count = 0; count < 6; count++)
        decisions.push((await limiter.take(mode, limit)).allowed);
      expect(performance.now() - startedAtMs).toBeLessThan(1_500);
      expect(decisions).toEqual([true, true, true, true, true, false]);
      expect(failures).toHaveLength(1);
      clock.advance(60_000);
      await limiter.take(mode, limit);
      expect(failures).toHaveLength(2);
    },
  );

  it("asks Redis again when it is back", async () => {
    const clock = new ManualClock(1_800_000_000_000);
    const failures: unknown[] = [];
    const [limiter, other] = [
      limiterOf(clock, {
        url: proxy.url,
        timeoutMs: 1_000,
        onFailure: (error) => failures.push(error),
      }),
      limiterOf(clock),
    ];
    proxy.behavior = "hangs";
    await limiter.take("back", limit);
    proxy.behavior = "forwards";
    for (let count = 0; count < 5; count++) await other.take("back", limit);
    expect(await limiter.take("back", limit)).toMatchObject({ allowed: true }); // not yet
    await vi.waitFor(async () => {
      clock.advance(1_000); // not long enough for a request to come back
      expect(await limiter.take("back", limit)).toMatchObject({ allowed: false });
    });
    expect(failures.length).toBeGreaterThan(0);
  });
});
