// The layers as one cache of answers: read through them in order, written to all.

import { type CacheLayer, type CacheLayerName, selectLayers } from "./cache-policy.ts";

/** How an answer is stored. */
export interface ResultCodec<Value> {
  encode(value: Value): Uint8Array;
  /** @returns undefined for what this version did not write: it then counts as absent */
  decode(bytes: Uint8Array): Value | undefined;
}

export interface CachedResults<Value> {
  /** One element per key, in order; undefined where the answer has to be computed. */
  readonly values: readonly (Value | undefined)[];
  /** The slowest layer that was needed; `miss` where one of the keys is in none. */
  readonly status: CacheLayerName | "miss";
  /** What was found being put into the layers before, to be finished after the response; absent where nothing is. */
  readonly backfill?: Promise<void>;
}

/** Keys are those of `cacheKey`; a tenant's answers are not in all layers. */
export interface ResultCache<Value> {
  read(keys: readonly string[], tenant: string): Promise<CachedResults<Value>>;
  /** L1 at once; the returned promise is the rest, to be finished after the response. */
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
      const asked: CacheLayer[] = [];
      const fills: Promise<void>[] = [];
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
          fills.push(...asked.map(({ store, ttlSeconds }) => store.set(found, ttlSeconds)));
        }
        asked.push(layer);
      }
      const result = values.includes(undefined) ? "miss" : slowest;
      return fills.length === 0
        ? { values, status: result }
        : { values, status: result, backfill: settleWrites(fills) };
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

/** @param decode undefined for a value that is none */
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
