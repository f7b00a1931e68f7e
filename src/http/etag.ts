// ETags: computes and matches strong entity tags of responses (RFC 9110, sections 8.8.3 and 13.1.2).

import { encodeLengthPrefixed, sha256Hex } from "../core/hash.ts";

/** @param keys cache keys of all inputs; they cover the version, the parameters and the inputs */
export async function computeEtag(keys: readonly string[]): Promise<string> {
  return `"${(await sha256Hex(encodeLengthPrefixed(keys))).slice(0, 32)}"`;
}

export function matchesEtag(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch
    .split(",")
    .some((candidate) => candidate.trim() === "*" || candidate.trim().replace(/^W\//, "") === etag);
}
