// The freshness policy: L1, then L2, for the answers of one request; what may be stored, and for how long.

import type { CacheEntry, CacheStore } from "./cache-store.ts";
import { sharedCacheKey } from "./key.ts";

/** Which layer an answer came from; `bypass` where the client asked for no cache. */
export type CacheLayer = "l1" | "l2" | "miss" | "bypass";
export type CacheMode = "use" | "bypass" | "refresh";

export interface CachedAnswers<Value> {
  /** One element per key, in order; undefined where the answer has to be computed. */
  readonly values: readonly (Value | undefined)[];
  /** The slowest layer that was needed. */
  readonly layer: CacheLayer;
}

export interface AnswerCacheOptions {
  readonly l1: CacheStore;
  /** Absent where no Redis is configured. */
  readonly l2: CacheStore | undefined;
  readonly ttlSeconds: number;
}

/** Keys are those of `cacheKey`. */
export interface AnswerCache<Value> {
  read(keys: readonly string[], mode: CacheMode): Promise<CachedAnswers<Value>>;
  /** L1 at once; the returned promise is the write to L2, to be finished after the response. */
  write(entries: readonly { readonly key: string; readonly value: Value }[], mode: CacheMode): Promise<void>;
}

/** @param decode undefined for a value that this version did not write: it then counts as absent */
export function createAnswerCache<Value>(options: AnswerCacheOptions, decode: (value: unknown) => Value | undefined): AnswerCache<Value> {
  const { l1, l2, ttlSeconds } = options;

  return {
    async read(keys, mode) {
      if (mode !== "use") return { values: keys.map(() => undefined), layer: mode === "bypass" ? "bypass" : "miss" };
      const values = (await l1.get(keys)).map((bytes) => parse(bytes, decode));
      const missing = keys.flatMap((key, index) => (values[index] === undefined ? [{ key, index }] : []));
      if (missing.length === 0) return { values, layer: "l1" };
      if (l2 === undefined) return { values, layer: "miss" };

      const found = await l2.get(await Promise.all(missing.map(({ key }) => sharedCacheKey(key))));
      const valid = missing.flatMap(({ key, index }, row) => {
        const bytes = found[row];
        const value = parse(bytes, decode);
        if (bytes === undefined || value === undefined) return [];
        values[index] = value;
        return [{ key, value: bytes }];
      });
      await l1.set(valid, ttlSeconds);
      return { values, layer: valid.length === missing.length ? "l2" : "miss" };
    },

    async write(entries, mode) {
      if (mode === "bypass" || entries.length === 0) return;
      const encoded = entries.map(({ key, value }) => ({ key, value: new TextEncoder().encode(JSON.stringify(value)) }));
      await l1.set(encoded, ttlSeconds);
      if (l2 === undefined) return;
      const shared = encoded.map(async ({ key, value }): Promise<CacheEntry> => ({ key: await sharedCacheKey(key), value }));
      await l2.set(await Promise.all(shared), ttlSeconds);
    },
  };
}

function parse<Value>(bytes: Uint8Array | undefined, decode: (value: unknown) => Value | undefined): Value | undefined {
  if (bytes === undefined) return undefined;
  try {
    return decode(JSON.parse(new TextDecoder().decode(bytes)));
  } catch {
    return undefined;
  }
}
