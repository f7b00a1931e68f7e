// L1 layer: a least-recently-used CacheStore in the isolate's memory, with a byte limit and a time to live.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";
import type { CacheStore } from "../cache-store.ts";

interface CachedItem {
  readonly value: Uint8Array;
  readonly expiresAtMs: number;
}

/** Memory of an entry in addition to its bytes: map node, list links, objects. Rough measurement on V8. */
const ENTRY_OVERHEAD_BYTES = 200;

export interface LruCacheOptions {
  /** Limit of keys, values and overhead together; 0 stores nothing. */
  readonly maxBytes: number;
  readonly clock: Clock;
}

export function createLruCache({ maxBytes, clock }: LruCacheOptions): CacheStore {
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
