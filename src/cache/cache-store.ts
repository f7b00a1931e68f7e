// CacheStore port: stores bytes under a key with a time to live. Drivers: drivers/lru.ts (L1), drivers/cdn.ts,
// drivers/upstash.ts (L2). hashed-key-store.ts and circuit-breaking-store.ts wrap drivers outside the isolate.

export interface CacheEntry {
  readonly key: string;
  readonly value: Uint8Array;
}

/** Its methods reject if the store is unreachable. circuit-breaking-store.ts keeps such failures away from requests. */
export interface CacheStore {
  /** @returns one element per key, in order; undefined for a missing or unreadable value */
  get(keys: readonly string[]): Promise<(Uint8Array | undefined)[]>;
  /** @param ttlSeconds a positive integer */
  set(entries: readonly CacheEntry[], ttlSeconds: number): Promise<void>;
}
