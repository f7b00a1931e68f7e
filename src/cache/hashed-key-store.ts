// What a store outside the isolate gets: hashed keys, so that it does not learn inputs, and sealed values.

import type { CacheStore } from "./cache-store.ts";
import { hashCacheKey } from "./cache-key.ts";
import { encodeChecksummed, decodeChecksummed } from "./checksummed-value.ts";

/** @param store its keys are the SHA-256 of those that come in, in hexadecimal digits */
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
      const sealed = entries.map(async ({ key, value }) => {
        const hash = await hashCacheKey(key);
        return { key: hash, value: await encodeChecksummed(hash, value) };
      });
      await store.set(await Promise.all(sealed), ttlSeconds);
    },
  };
}
