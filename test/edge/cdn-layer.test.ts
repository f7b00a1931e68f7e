// CDN layer: results of POST in the platform's Cache API, shared by the isolates of a data center.
import { describe, expect, it } from "vitest";
import { createCacheCircuitBreaker } from "../../src/cache/circuit-breaker.ts";
import { createCircuitBreakingStore } from "../../src/cache/circuit-breaking-store.ts";
import { createCdnCache, type HttpCache } from "../../src/cache/drivers/cdn.ts";
import { createHashedKeyStore } from "../../src/cache/hashed-key-store.ts";
import { ManualClock, systemClock } from "../../src/core/clock.ts";
import { predictResponseSchema } from "../../src/protocol/predict.ts";
import toy from "../fixtures/toy.onnx";
import { ALIAS_TTL_MS, type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullDeployment } from "./full-engine.ts";

const { default: platformCache } = globalThis.caches as unknown as { readonly default: HttpCache };
const createKeyedCdnCache = (cache: HttpCache, timeoutMs = 5_000) =>
  createHashedKeyStore(createCdnCache({ cache, clock: systemClock, timeoutMs }));

/** Starts an isolate with its own L1. @param cache the cache of its data center */
function startIsolate(cache: HttpCache): Promise<EdgeUnderTest> {
  const store = createCircuitBreakingStore(
    createKeyedCdnCache(cache),
    createCacheCircuitBreaker({ clock: systemClock }),
  );
  return startEdgeUnderTest(new Uint8Array(toy), fullDeployment, {
    cacheLayers: [{ name: "cdn", store, ttlSeconds: 60 }],
  });
}

const cacheResultOf = (response: Response) => response.headers.get("x-edgetier-cache");

/** The platform's cache, with URLs of its own for each test. */
function createDataCenterCache(): { readonly cache: HttpCache; readonly urls: string[] } {
  const urls: string[] = [];
  const suffix = `${Math.random()}`;
  const cache: HttpCache = {
    match: (url) => platformCache.match(`${url}?${suffix}`),
    put: (url, response) => {
      urls.push(url);
      return platformCache.put(`${url}?${suffix}`, response);
    },
  };
  return { cache, urls };
}

describe("the CDN layer", () => {
  it("serves other isolates of the data center, and never an old version", async () => {
    const { cache, urls } = createDataCenterCache();
    const [first, second] = [await startIsolate(cache), await startIsolate(cache)];
    expect(cacheResultOf(await first.predict({ inputs: "maybe" }))).toBe("miss");
    await expect.poll(() => urls.length).toBe(1);
    expect(urls[0]).toMatch(/^https:\/\/answers\.edgetier\.invalid\/[0-9a-f]{64}$/);
    await expect
      .poll(async () =>
        cacheResultOf(await (await startIsolate(cache)).predict({ inputs: "maybe" })),
      )
      .toBe("cdn");
    expect(cacheResultOf(await second.predict({ inputs: "maybe" }))).toBe("cdn");
    expect(cacheResultOf(await second.predict({ inputs: "maybe" }))).toBe("l1");

    await publishToyModel(second.store, new Uint8Array(toy), { version: 2 });
    second.clock.advance(2 * ALIAS_TTL_MS);
    const after = await second.predict({ inputs: "maybe" });
    expect(cacheResultOf(after)).toBe("miss");
    expect(predictResponseSchema.parse(await after.json()).version).toBe(2);
  });

  it("does not affect predictions if the Cache API has no effect or fails", async () => {
    const without: HttpCache = { match: async () => undefined, put: async () => {} };
    const failing: HttpCache = {
      match: () => Promise.reject(new Error("no cache was configured")),
      put: () => Promise.reject(new Error("no cache was configured")),
    };
    for (const cache of [without, failing]) {
      const edge = await startIsolate(cache);
      expect(cacheResultOf(await edge.predict({ inputs: "maybe" }))).toBe("miss");
      expect(cacheResultOf(await edge.predict({ inputs: "maybe" }))).toBe("l1");
    }
  });
});

describe("the limits of the CDN layer", () => {
  it("times out", async () => {
    const clock = new ManualClock();
    const silent: HttpCache = { match: () => new Promise(() => {}), put: async () => {} };
    const waiting = createCdnCache({ cache: silent, clock, timeoutMs: 20 }).get(["a"]);
    clock.advance(20);
    await expect(waiting).rejects.toMatchObject({ code: "cache_too_slow" });
  });

  it("reads no more keys than the platform allows subrequests", async () => {
    const requestedUrls: string[] = [];
    const counting: HttpCache = {
      match: async (url) => void requestedUrls.push(url),
      put: async (url) => void requestedUrls.push(url),
    };
    const keys = Array.from({ length: 9 }, (_, index) => `${index}`);
    const store = createCdnCache({
      cache: counting,
      clock: systemClock,
      timeoutMs: 1_000,
      maxKeys: 4,
    });
    expect(await store.get(keys)).toEqual(keys.map(() => undefined));
    await store.set(
      keys.map((key) => ({ key, value: Uint8Array.of(1) })),
      60,
    );
    expect(requestedUrls).toHaveLength(8);
  });
});
