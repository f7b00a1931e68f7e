// Combines the cache layers into one result cache: reads go through the layers in order, writes go to all of them.

import { type CacheLayer, type CacheLayerName, selectLayers } from "./cache-policy.ts";

export interface ResultCodec<Value> {
  encode(value: Value): Uint8Array;
  /** @returns undefined for bytes in an unknown form, which count as absent */
  decode(bytes: Uint8Array): Value | undefined;
}

export interface CachedResults<Value> {
  /** One element per key, in order; undefined for a miss. */
  readonly values: readonly (Value | undefined)[];
  /** Slowest layer with a hit; `miss` if any key is in no layer. */
  readonly status: CacheLayerName | "miss";
  /** Copies hits into the earlier layers; await it after the response. Absent if there is nothing to copy. */
  readonly backfill?: Promise<void>;
}

/** Keys come from `formatCacheKey`. The tenant determines the layers. */
export interface ResultCache<Value> {
  read(keys: readonly string[], tenant: string): Promise<CachedResults<Value>>;
  /** Writes to L1 immediately. The returned promise covers the other layers; await it after the response. */
  write(
    entries: readonly { readonly key: string; readonly value: Value }[],
    tenant: string,
  ): Promise<void>;
}

export function createResultCache<Value>(
  layers: readonly CacheLayer[],
  codec: ResultCodec<Value>,
): ResultCache<Value> {
  return {
    async read(keys, tenant) {
      const values: (Value | undefined)[] = keys.map(() => undefined);
      const queried: CacheLayer[] = [];
      const backfills: Promise<void>[] = [];
      let slowest: CacheLayerName = "l1";
      for (const layer of selectLayers(layers, tenant)) {
        const missing = keys.flatMap((key, index) =>
          values[index] === undefined ? [{ key, index }] : [],
        );
        if (missing.length === 0) break;
        const stored = await layer.store.get(missing.map(({ key }) => key));
        const found = missing.flatMap(({ key, index }, row) => {
          const bytes = stored[row];
          const value = bytes && codec.decode(bytes);
          if (bytes === undefined || value === undefined) return [];
          values[index] = value;
          return [{ key, value: bytes }];
        });
        if (found.length > 0) {
          slowest = layer.name;
          backfills.push(...queried.map(({ store, ttlSeconds }) => store.set(found, ttlSeconds)));
        }
        queried.push(layer);
      }
      const status = values.includes(undefined) ? "miss" : slowest;
      return backfills.length === 0
        ? { values, status }
        : { values, status, backfill: settleWrites(backfills) };
    },

    async write(entries, tenant) {
      if (entries.length === 0) return;
      const encoded = entries.map(({ key, value }) => ({ key, value: codec.encode(value) }));
      await settleWrites(
        selectLayers(layers, tenant).map(({ store, ttlSeconds }) => store.set(encoded, ttlSeconds)),
      );
    },
  };
}

const settleWrites = (writes: readonly Promise<void>[]): Promise<void> =>
  Promise.all(writes).then(() => {});

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** @param decode returns undefined for an invalid value */
export function createJsonCodec<Value>(
  decode: (value: unknown) => Value | undefined,
): ResultCodec<Value> {
  return {
    encode: (value) => encoder.encode(JSON.stringify(value)),
    decode(bytes) {
      try {
        return decode(JSON.parse(decoder.decode(bytes)));
      } catch {
        return undefined;
      }
    },
  };
}
