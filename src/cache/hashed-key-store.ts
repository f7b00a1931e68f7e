// Wraps a store outside the isolate: keys are hashed, so the store does not see inputs, and values are checksummed.

import { hashCacheKey } from "./cache-key.ts";
import type { CacheStore } from "./cache-store.ts";
import { encodeChecksummed, decodeChecksummed } from "./checksummed-value.ts";

/** @param store receives the hexadecimal SHA-256 of each key */
export function createHashedKeyStore(store: CacheStore): CacheStore {
  return {
    async get(keys) {
      const hashes = await Promise.all(keys.map(hashCacheKey));
      const found = await store.get(hashes);
      return await Promise.all(
        hashes.map(
          async (hash, index) => found[index] && (await decodeChecksummed(hash, found[index])),
        ),
      );
    },
    async set(entries, ttlSeconds) {
      const checksummed = entries.map(async ({ key, value }) => {
        const hash = await hashCacheKey(key);
        return { key: hash, value: await encodeChecksummed(hash, value) };
      });
      await store.set(await Promise.all(checksummed), ttlSeconds);
    },
  };
}
