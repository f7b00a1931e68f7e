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

  it("stays within its bytes by forgetting what was unused for longest", async () => {
    const cache = createLruCache({ maxBytes: 4000, clock: new ManualClock() });
    for (const key of ["a", "b", "c"]) await cache.set([{ key, value }], 60);
    await cache.get(["a"]);
    await cache.set([{ key: "d", value }], 60);
    const kept = await cache.get(["a", "b", "c", "d"]);
    expect(kept.map((found) => found !== undefined)).toEqual([true, false, true, true]);
  });

  it("does not store what is larger than itself, nor anything when it has no bytes", async () => {
    for (const maxBytes of [500, 0]) {
      const cache = createLruCache({ maxBytes, clock: new ManualClock() });
      await cache.set([{ key: "a", value }], 60);
      expect(await cache.get(["a"])).toEqual([undefined]);
    }
  });
});
