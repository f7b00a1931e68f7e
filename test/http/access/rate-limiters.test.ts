// Rate limiters: the isolate's and the one on Redis.
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

it("never allows more than the burst plus the refilled tokens, in any interval", () => {
  const requests = fc.integer({ min: 1, max: 50 });
  const windowSeconds = fc.integer({ min: 1, max: 120 });
  const gapsMs = fc.array(
    fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 5_000 })),
    { minLength: 1, maxLength: 300 },
  );
  fc.assert(
    fc.property(requests, windowSeconds, gapsMs, (maxRequests, seconds, gaps) => {
      const clock = new ManualClock(1_800_000_000_000);
      const limiter = createIsolateRateLimiter(clock);
      const allowedAtMs: number[] = [];
      for (const gap of gaps) {
        clock.advance(gap);
        if (limiter.takeSync("subject", { requests: maxRequests, windowSeconds: seconds }).allowed)
          allowedAtMs.push(clock.now());
      }
      allowedAtMs.forEach((from, first) => {
        for (let last = first; last < allowedAtMs.length; last++) {
          const spanMs = (allowedAtMs[last] ?? 0) - from;
          expect(last - first + 1).toBeLessThanOrEqual(
            maxRequests + Math.floor((spanMs / 1000 / seconds) * maxRequests + 0.001),
          );
        }
      });
    }),
  );
});

let redis: LocalRedis;
let proxy: TcpProxy;
const limit = { requests: 5, windowSeconds: 60 };

const createLimiter = (
  clock: ManualClock,
  options: {
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
    ...options,
  });

function useRedis(): void {
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
}

describe.skipIf(!hasRedisServer)(
  "the Redis rate limiter (needs a redis-server on the PATH)",
  () => {
    useRedis();

    rateLimiterContract("redis", async (clock) => createLimiter(clock));

    it("counts the requests of all isolates together, and rejects further ones without a round trip", async () => {
      const clock = new ManualClock(1_800_000_000_000);
      const isolates = Array.from({ length: 4 }, () => createLimiter(clock, { url: proxy.url }));
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
      for (const isolate of isolates) await isolate.take("shared", limit); // Redis has now rejected each of them
      const sentBefore = proxy.bytesSent;
      expect(await takeAll()).toBe(0);
      expect(proxy.bytesSent).toBe(sentBefore);
      clock.advance(12_000);
      expect(await takeAll()).toBe(1);
    });
  },
);

describe.skipIf(!hasRedisServer)("the Redis rate limiter during an outage", () => {
  useRedis();

  it.each([
    ["resets the connection", "resets", undefined],
    ["hangs", "hangs", undefined],
    ["rejects the token", "forwards", "wrong"],
  ] as const)(
    "counts locally if Redis %s: one call, then a pause",
    async (_name, behavior, wrongToken) => {
      const clock = new ManualClock(1_800_000_000_000);
      const failures: unknown[] = [];
      const limiter = createLimiter(clock, {
        url: proxy.url,
        token: wrongToken ?? redis.token,
        timeoutMs: 200,
        onFailure: (error) => failures.push(error),
      });
      proxy.behavior = behavior;
      const decisions = [];
      for (let count = 0; count < 6; count++)
        decisions.push((await limiter.take(behavior, limit)).allowed);
      expect(failures).toHaveLength(1); // later calls do not wait for Redis again
      expect(decisions).toEqual([true, true, true, true, true, false]);
      clock.advance(60_000);
      await limiter.take(behavior, limit);
      expect(failures).toHaveLength(2);
    },
  );

  it("calls Redis again after its recovery", async () => {
    const clock = new ManualClock(1_800_000_000_000);
    const failures: unknown[] = [];
    const [limiter, other] = [
      createLimiter(clock, {
        url: proxy.url,
        timeoutMs: 1_000,
        onFailure: (error) => failures.push(error),
      }),
      createLimiter(clock),
    ];
    proxy.behavior = "hangs";
    await limiter.take("back", limit);
    proxy.behavior = "forwards";
    for (let count = 0; count < 5; count++) await other.take("back", limit);
    expect(await limiter.take("back", limit)).toMatchObject({ allowed: true }); // not yet
    await vi.waitFor(async () => {
      clock.advance(1_000); // shorter than the refill of one token
      expect(await limiter.take("back", limit)).toMatchObject({ allowed: false });
    });
    expect(failures.length).toBeGreaterThan(0);
  });
});
