// Cache keys: a key contains every value that determines a response, and no other value.

import { sha256Hex } from "../core/hash.ts";

export interface CacheKeyFields {
  /** Owner of the response; "" if requests need no authentication. */
  readonly tenant: string;
  readonly model: string;
  readonly version: number;
  /** SHA-256 of the manifest, because another store may have another model under the same version number. */
  readonly manifestDigest: string;
  /** Request parameters that change the response, in an order that the task defines. */
  readonly parameters: readonly (string | number)[];
  /** Input identity from the task, which is equal only for identical inputs. */
  readonly input: string;
}

/** Increase it when the stored form of a response changes. */
const KEY_FORMAT = 2;

/** Formats the L1 key. Each field follows its length, so two different field lists never give the same key. */
export function formatCacheKey({
  tenant,
  model,
  version,
  manifestDigest,
  parameters,
  input,
}: CacheKeyFields): string {
  const fields = [
    KEY_FORMAT,
    tenant,
    model,
    version,
    manifestDigest,
    parameters.length,
    ...parameters,
    input,
  ].map(String);
  return fields.map((field) => `${field.length}:${field}`).join("");
}

/**
 * Hashes a key for stores outside the isolate, so that it is short and does not reveal the input. L1 uses the unhashed
 * key, because asynchronous hashing with Web Crypto would cost more than the rest of a cache hit.
 */
export async function hashCacheKey(key: string): Promise<string> {
  return await sha256Hex(new TextEncoder().encode(key));
}
