// L1: a least-recently-used CacheStore in the isolate's memory, bounded in bytes, with a time to live.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";
import type { CacheStore } from "../cache-store.ts";

interface CachedItem {
  readonly value: Uint8Array;
  readonly expiresAtMs: number;
}

/** What an entry costs beside its bytes: map node, list links, objects (measured on V8: roughly). */
const ENTRY_OVERHEAD_BYTES = 200;

/** @param maxBytes keys, values and overhead together; 0 keeps nothing */
export function createLruCache(options: { maxBytes: number; clock: Clock }): CacheStore {
  const { maxBytes, clock } = options;
  if (maxBytes === 0)
    return { get: async (keys) => keys.map(() => undefined), set: async () => {} };
  const items = new LRUCache<string, CachedItem>({
    maxSize: maxBytes,
    sizeCalculation: (item, key) => item.value.byteLength + 2 * key.length + ENTRY_OVERHEAD_BYTES,
  });

  return {
    async get(keys) {
      return keys.map((key) => {
        const item = items.get(key);
        if (item === undefined) return undefined;
        if (item.expiresAtMs > clock.now()) return item.value;
        items.delete(key);
        return undefined;
      });
    },
    async set(entries, ttlSeconds) {
      const expiresAtMs = clock.now() + ttlSeconds * 1000;
      for (const { key, value } of entries) items.set(key, { value, expiresAtMs });
    },
  };
}
