// What every CacheStore must do.
import { describe, expect, it } from "vitest";
import type { CacheStore } from "../../src/cache/cache-store.ts";

export interface CacheUnderTest {
  readonly cache: CacheStore;
  /** Lets the given time pass for the cache: a manual clock where the driver takes one, real waiting otherwise. */
  readonly pass: (seconds: number) => Promise<void>;
}

/** @param fresh gives a cache in which none of the keys of `unique` is stored */
export function cacheStoreContract(driver: string, fresh: () => Promise<CacheUnderTest>): void {
  let count = 0;
  const unique = (name: string) => `contract:${Date.now()}:${Math.random()}:${++count}:${name}`;
  const everyByte = Uint8Array.from({ length: 256 }, (_, byte) => byte);

  describe(`CacheStore: ${driver}`, () => {
    it("gives back every byte that was stored", async () => {
      const { cache } = await fresh();
      const key = unique("bytes");
      await cache.set([{ key, value: everyByte }], 60);
      expect(await cache.get([key])).toEqual([everyByte]);
    });

    it("answers many keys in order, with gaps where nothing is stored", async () => {
      const { cache } = await fresh();
      const [a, b, c] = [unique("a"), unique("b"), unique("c")];
      await cache.set(
        [
          { key: a, value: Uint8Array.of(1) },
          { key: c, value: Uint8Array.of(3) },
        ],
        60,
      );
      expect(await cache.get([c, b, a])).toEqual([Uint8Array.of(3), undefined, Uint8Array.of(1)]);
    });

    it("takes empty lists", async () => {
      const { cache } = await fresh();
      await cache.set([], 60);
      expect(await cache.get([])).toEqual([]);
    });

    it("replaces a value", async () => {
      const { cache } = await fresh();
      const key = unique("replaced");
      await cache.set([{ key, value: Uint8Array.of(1) }], 60);
      await cache.set([{ key, value: Uint8Array.of(2) }], 60);
      expect(await cache.get([key])).toEqual([Uint8Array.of(2)]);
    });

    it("forgets a value after its time to live", async () => {
      const { cache, pass } = await fresh();
      const [short, long] = [unique("short"), unique("long")];
      await cache.set([{ key: short, value: Uint8Array.of(1) }], 1);
      await cache.set([{ key: long, value: Uint8Array.of(1) }], 60);
      await pass(1.1);
      expect(await cache.get([short, long])).toEqual([undefined, Uint8Array.of(1)]);
    });
  });
}
