// The CacheStore port: bytes under a key for a while. Drivers: drivers/lru.ts (L1), drivers/upstash.ts (L2).

export interface CacheEntry {
  readonly key: string;
  readonly value: Uint8Array;
}

/**
 * A cache is never the reason for a failed request: drivers swallow their own failures, and report them to
 * `onFailure` of their options.
 */
export interface CacheStore {
  /** @returns one element per key, in order; undefined where nothing (or nothing readable) is stored. */
  get(keys: readonly string[]): Promise<(Uint8Array | undefined)[]>;
  /** @param ttlSeconds whole seconds, from 1 */
  set(entries: readonly CacheEntry[], ttlSeconds: number): Promise<void>;
}
