// The key rule: everything that an answer depends on, and nothing else.

import { sha256Hex } from "../core/hash.ts";

export interface CacheKeyFields {
  /** Whose answer it is; "" where nobody has to say who they are. */
  readonly tenant: string;
  readonly model: string;
  readonly version: number;
  /** SHA-256 of the manifest: the same version number in another store is another model. */
  readonly manifestDigest: string;
  /** What of the request changes the answer, in an order of its task's own. */
  readonly parameters: readonly (string | number)[];
  /** Of the input, as its task gives it: equal only for inputs that are the same. */
  readonly input: string;
}

/** Raise it when the stored form of an answer changes. */
const KEY_FORMAT = 2;

/** Each field with its length before it, so that no two identities give the same text. The key in L1. */
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
 * The key outside the isolate: short, and silent about the input. Not used for L1, where hashing would cost more than
 * all the rest of an answer from the cache (Web Crypto answers asynchronously).
 */
export async function hashCacheKey(key: string): Promise<string> {
  return await sha256Hex(new TextEncoder().encode(key));
}
