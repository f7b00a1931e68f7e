// The CacheStore port: bytes under a key for a while. Drivers: drivers/lru.ts (L1), drivers/cdn.ts, drivers/upstash.ts (L2);
// shared-store.ts and guarded-store.ts put around a driver what those outside the isolate need.

export interface CacheEntry {
  readonly key: string;
  readonly value: Uint8Array;
}

/** Rejects where it cannot be reached. A cache is never the reason for a failed request: guarded-store.ts sees to that. */
export interface CacheStore {
  /** @returns one element per key, in order; undefined where nothing (or nothing readable) is stored. */
  get(keys: readonly string[]): Promise<(Uint8Array | undefined)[]>;
  /** @param ttlSeconds whole seconds, from 1 */
  set(entries: readonly CacheEntry[], ttlSeconds: number): Promise<void>;
}
