import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createCacheCircuitBreaker } from "../../src/cache/circuit-breaker.ts";
import { createCircuitBreakingStore } from "../../src/cache/circuit-breaking-store.ts";
import { createUpstashCache } from "../../src/cache/drivers/upstash.ts";
import { type LocalRedis, startLocalRedis } from "../../src/cli/local/redis.ts";
import { ManualClock } from "../../src/core/clock.ts";
import { cacheStoreContract } from "../contract/cache-store.ts";
import { hasRedisServer } from "../support/redis.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

// oxlint-disable-next-line max-lines-per-function -- all cases share one Redis server, whose lifecycle the describe owns
describe.skipIf(!hasRedisServer)("the Upstash cache (needs a redis-server on the PATH)", () => {
  let redis: LocalRedis;
  beforeAll(async () => {
    const started = await startLocalRedis({ port: 0, onLine: () => {} });
    if (started === undefined) throw new Error("redis-server did not start");
    redis = started;
  });
  afterAll(async () => await redis?.stop());

  const cacheAt = (url: string, token = redis.token) =>
    createUpstashCache({ url, token, timeoutMs: 300, writeTimeoutMs: 300 });

  cacheStoreContract("upstash, over a real Redis", async () => ({
    cache: cacheAt(redis.url),
    pass: (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
  }));

  it("rejects if Redis resets connections, hangs, or rejects the token", async () => {
    const proxy = await startTcpProxy();
    proxy.target = redis.url;
    for (const mode of ["resets", "hangs"] as const) {
      proxy.behavior = mode;
      await expect(cacheAt(proxy.url).get(["fault"])).rejects.toBeInstanceOf(Error);
      await expect(
        cacheAt(proxy.url).set([{ key: "fault", value: Uint8Array.of(1) }], 60),
      ).rejects.toBeInstanceOf(Error);
    }
    await proxy.close();
    await expect(cacheAt(redis.url, "wrong").get(["fault"])).rejects.toBeInstanceOf(Error);
  });

  it("behind a circuit breaker, times out only once while Redis hangs, and recovers afterwards", async () => {
    const proxy = await startTcpProxy();
    proxy.target = redis.url;
    const clock = new ManualClock();
    const failures: string[] = [];
    const cache = createCircuitBreakingStore(
      cacheAt(proxy.url),
      createCacheCircuitBreaker({ clock, minOpenMs: 1_000 }),
      (operation) => failures.push(operation),
    );
    const entries = [{ key: "frozen", value: Uint8Array.of(1) }];
    await cache.set(entries, 60);
    proxy.behavior = "resets"; // closes the open connections
    proxy.behavior = "hangs";
    const connectionsBefore = proxy.connections;
    for (let count = 0; count < 100; count++)
      expect(await cache.get(["frozen"])).toEqual([undefined]);
    expect({ failures, connections: proxy.connections - connectionsBefore }).toEqual({
      failures: ["get"],
      connections: 1,
    });

    proxy.behavior = "resets";
    proxy.behavior = "forwards";
    clock.advance(1_000);
    await cache.set(entries, 60);
    expect(await cache.get(["frozen"])).toEqual([Uint8Array.of(1)]);
    await proxy.close();
  });

  it("sends one request for many keys, without retries", async () => {
    const proxy = await startTcpProxy();
    proxy.behavior = "resets";
    await expect(cacheAt(proxy.url).get(["a", "b", "c"])).rejects.toBeInstanceOf(Error);
    expect(proxy.connections).toBe(1);
    await proxy.close();
  });
});
