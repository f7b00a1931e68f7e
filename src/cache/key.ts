// The key rule: everything that an answer depends on, and nothing else.

import { lengthPrefixed, sha256Hex } from "../core/hash.ts";

export interface AnswerIdentity {
  readonly model: string;
  readonly version: number;
  /** SHA-256 of the manifest: the same version number in another store is another model. */
  readonly manifestDigest: string;
  /** What of the request changes the answer. */
  readonly parameters: { readonly topK: number; readonly maxTier: string | undefined };
  /** The input as the task writes it. */
  readonly input: Uint8Array;
}

/** Raise it when the stored form of an answer changes. */
const FORMAT = "1";

/** SHA-256 over the length-prefixed fields: the key in every layer. */
export async function cacheKey(identity: AnswerIdentity): Promise<string> {
  const { model, version, manifestDigest, parameters, input } = identity;
  const fields = [FORMAT, model, String(version), manifestDigest, String(parameters.topK), parameters.maxTier ?? "", input];
  return `edgetier:${await sha256Hex(lengthPrefixed(fields))}`;
}
