// Contract of CacheStore.
import { describe, expect, it } from "vitest";
import type { CacheStore } from "../../src/cache/cache-store.ts";

export interface CacheUnderTest {
  readonly cache: CacheStore;
  /** Advances the cache's time, with a manual clock if the driver supports one, or else by waiting. */
  readonly pass: (seconds: number) => Promise<void>;
}

/** @param create creates a cache without the keys of `createKey` */
export function cacheStoreContract(driver: string, create: () => Promise<CacheUnderTest>): void {
  let count = 0;
  const createKey = (name: string) => `contract:${Date.now()}:${Math.random()}:${++count}:${name}`;
  const everyByte = Uint8Array.from({ length: 256 }, (_, byte) => byte);

  describe(`CacheStore: ${driver}`, () => {
    it("preserves every byte", async () => {
      const { cache } = await create();
      const key = createKey("bytes");
      await cache.set([{ key, value: everyByte }], 60);
      expect(await cache.get([key])).toEqual([everyByte]);
    });

    it("returns values in the order of the keys, with undefined for missing ones", async () => {
      const { cache } = await create();
      const [a, b, c] = [createKey("a"), createKey("b"), createKey("c")];
      await cache.set(
        [
          { key: a, value: Uint8Array.of(1) },
          { key: c, value: Uint8Array.of(3) },
        ],
        60,
      );
      expect(await cache.get([c, b, a])).toEqual([Uint8Array.of(3), undefined, Uint8Array.of(1)]);
    });

    it("accepts empty lists", async () => {
      const { cache } = await create();
      await cache.set([], 60);
      expect(await cache.get([])).toEqual([]);
    });

    it("replaces a value", async () => {
      const { cache } = await create();
      const key = createKey("replaced");
      await cache.set([{ key, value: Uint8Array.of(1) }], 60);
      await cache.set([{ key, value: Uint8Array.of(2) }], 60);
      expect(await cache.get([key])).toEqual([Uint8Array.of(2)]);
    });

    it("drops a value after its time to live", async () => {
      const { cache, pass } = await create();
      const [short, long] = [createKey("short"), createKey("long")];
      await cache.set([{ key: short, value: Uint8Array.of(1) }], 1);
      await cache.set([{ key: long, value: Uint8Array.of(1) }], 60);
      await pass(1.1);
      expect(await cache.get([short, long])).toEqual([undefined, Uint8Array.of(1)]);
    });
  });
}
