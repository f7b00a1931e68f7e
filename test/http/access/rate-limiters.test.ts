import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRedis, startLocalRedis } from "../../../src/cli/local/redis.ts";
import { ManualClock } from "../../../src/core/clock.ts";
import { createIsolateLimiter } from "../../../src/http/access/drivers/isolate-limiter.ts";
import { createRedisLimiter } from "../../../src/http/access/drivers/redis-limiter.ts";
import { rateLimiterContract } from "../../contract/rate-limiter.ts";
import { hasRedisServer } from "../../support/redis.ts";
import { startTcpProxy, type TcpProxy } from "../../support/tcp-proxy.ts";

rateLimiterContract("isolate", async (clock) => createIsolateLimiter(clock));

it("never allows more than the burst and what came back since, in any stretch of time", () => {
  const requests = fc.integer({ min: 1, max: 50 });
  const windowSeconds = fc.integer({ min: 1, max: 120 });
  const gapsMs = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 5_000 })), { minLength: 1, maxLength: 300 });
  fc.assert(
    fc.property(requests, windowSeconds, gapsMs, (most, seconds, gaps) => {
      const clock = new ManualClock(1_800_000_000_000);
      const limiter = createIsolateLimiter(clock);
      const allowedAtMs: number[] = [];
      for (const gap of gaps) {
        clock.advance(gap);
        if (limiter.takeNow("one", { requests: most, windowSeconds: seconds }).allowed) allowedAtMs.push(clock.now());
      }
      allowedAtMs.forEach((from, first) => {
        for (let last = first; last < allowedAtMs.length; last++) {
          const spanMs = (allowedAtMs[last] ?? 0) - from;
          expect(last - first + 1).toBeLessThanOrEqual(most + Math.floor((spanMs / 1000 / seconds) * most + 0.001));
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

  const limit = { requests: 5, windowSeconds: 60 };
  const limiterOf = (clock: ManualClock, more: { url?: string; token?: string; timeoutMs?: number; onFailure?: (error: unknown) => void } = {}) => createRedisLimiter({ url: redis.url, token: redis.token, timeoutMs: 5_000, clock, ...more });

  rateLimiterContract("redis", async (clock) => limiterOf(clock));

  it("counts the requests of all isolates together, and lets none of them ask again before its time", async () => {
    const clock = new ManualClock(1_800_000_000_000);
    const isolates = Array.from({ length: 4 }, () => limiterOf(clock, { url: proxy.url }));
    const takeAll = async () => (await Promise.all(isolates.flatMap((isolate) => [isolate.take("shared", limit), isolate.take("shared", limit)]))).filter(({ allowed }) => allowed).length;
    expect(await takeAll()).toBe(5);
    for (const isolate of isolates) await isolate.take("shared", limit); // each has now been refused by Redis
    const sentBefore = proxy.bytesSent;
    expect(await takeAll()).toBe(0);
    expect(proxy.bytesSent).toBe(sentBefore);
    clock.advance(12_000);
    expect(await takeAll()).toBe(1);
  });

  it("goes on by its own count when Redis refuses, hangs or knows the token no more: one time-out, then a pause", async () => {
    for (const [mode, token] of [["refuses", redis.token], ["hangs", redis.token], ["forwards", "wrong"]] as const) {
      const clock = new ManualClock(1_800_000_000_000);
      const failures: unknown[] = [];
      const limiter = limiterOf(clock, { url: proxy.url, token, timeoutMs: 200, onFailure: (error) => failures.push(error) });
      proxy.mode = mode;
      const startedAtMs = performance.now();
      const decisions = [];
      for (let count = 0; count < 6; count++) decisions.push((await limiter.take(`away-${mode}`, limit)).allowed);
      expect(performance.now() - startedAtMs).toBeLessThan(1_500);
      expect(decisions).toEqual([true, true, true, true, true, false]);
      expect(failures).toHaveLength(1);
      proxy.mode = "forwards";
      clock.advance(60_000);
      await limiter.take(`away-${mode}`, limit);
      expect(failures).toHaveLength(token === "wrong" ? 2 : 1);
    }
  });
});
