import { describe, expect, it } from "vitest";
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import { ManualClock } from "../../src/core/clock.ts";
import { cacheStoreContract } from "../contract/cache-store.ts";

cacheStoreContract("lru", async () => {
  const clock = new ManualClock();
  return {
    cache: createLruCache({ maxBytes: 1_000_000, clock }),
    pass: async (seconds) => clock.advance(seconds * 1000),
  };
});

describe("the LRU cache", () => {
  const value = new Uint8Array(1000);

  it("evicts the least recently used entry to stay within its byte limit", async () => {
    const cache = createLruCache({ maxBytes: 4000, clock: new ManualClock() });
    for (const key of ["a", "b", "c"]) await cache.set([{ key, value }], 60);
    await cache.get(["a"]);
    await cache.set([{ key: "d", value }], 60);
    const [a, b, c, d] = await cache.get(["a", "b", "c", "d"]);
    expect({ a, b, c, d }).toEqual({ a: value, b: undefined, c: value, d: value });
  });

  it("does not store an entry beyond its limit, and stores nothing if the limit is 0", async () => {
    for (const maxBytes of [500, 0]) {
      const cache = createLruCache({ maxBytes, clock: new ManualClock() });
      await cache.set([{ key: "a", value }], 60);
      expect(await cache.get(["a"])).toEqual([undefined]);
    }
  });
});
