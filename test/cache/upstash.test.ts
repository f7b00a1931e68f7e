import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createUpstashCache } from "../../src/cache/drivers/upstash.ts";
import { type LocalRedis, startLocalRedis } from "../../src/cli/local/redis.ts";
import { cacheStoreContract } from "../contract/cache-store.ts";
import { hasRedisServer } from "../support/redis.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

describe.skipIf(!hasRedisServer)("the Upstash cache (needs a redis-server on the PATH)", () => {
  let redis: LocalRedis;
  beforeAll(async () => {
    const started = await startLocalRedis({ port: 0, onLine: () => {} });
    if (started === undefined) throw new Error("redis-server did not start");
    redis = started;
  });
  afterAll(async () => await redis?.stop());

  const failures: string[] = [];
  const cacheAt = (url: string, token = redis.token) =>
    createUpstashCache({ url, token, timeoutMs: 300, onFailure: (operation) => failures.push(operation) });

  cacheStoreContract("upstash, over a real Redis", async () => ({
    cache: cacheAt(redis.url),
    pass: (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
  }));

  it("fails no request when Redis is away, hangs, or knows the token no more; and says so", async () => {
    const proxy = await startTcpProxy();
    proxy.target = redis.url;
    const entries = [{ key: "fault", value: Uint8Array.of(1) }];
    for (const mode of ["refuses", "hangs"] as const) {
      proxy.mode = mode;
      failures.length = 0;
      const startedAtMs = performance.now();
      await cacheAt(proxy.url).set(entries, 60);
      expect(await cacheAt(proxy.url).get(["fault"])).toEqual([undefined]);
      expect(failures).toEqual(["set", "get"]);
      expect(performance.now() - startedAtMs).toBeLessThan(2 * 300 + 400);
    }
    await proxy.close();
    failures.length = 0;
    expect(await cacheAt(redis.url, "wrong").get(["fault"])).toEqual([undefined]);
    expect(failures).toEqual(["get"]);
  });

  it("asks once for many keys, and retries nothing", async () => {
    const proxy = await startTcpProxy();
    proxy.mode = "refuses";
    await cacheAt(proxy.url).get(["a", "b", "c"]);
    expect(proxy.connections).toBe(1);
    await proxy.close();
  });
});
