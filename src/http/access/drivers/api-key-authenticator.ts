// API key authenticator: compares a key's hash with the stored hashes.

import type { Clock } from "../../../core/clock.ts";
import { httpErrors } from "../../errors.ts";
import { type ApiKeyEntry, hashApiKey, isWellFormedApiKey, hasApiKeyPrefix } from "../api-key.ts";
import type { Authenticator } from "../authenticator.ts";

export function createApiKeyAuthenticator(
  entries: readonly ApiKeyEntry[],
  clock: Clock,
): Authenticator {
  return {
    recognizes: hasApiKeyPrefix,
    async authenticate(credential) {
      if (!isWellFormedApiKey(credential))
        throw httpErrors.invalidCredential("malformed", "the API key is truncated or mistyped");
      const hash = await hashApiKey(credential);
      let found: ApiKeyEntry | undefined;
      for (const entry of entries) if (timingSafeEqual(entry.sha256, hash)) found = entry; // compares all entries, to take constant time
      if (found === undefined)
        throw httpErrors.invalidCredential("unknown", "the API key is unknown");
      if (found.expiresAtMs !== undefined && clock.now() >= found.expiresAtMs)
        throw httpErrors.invalidCredential("expired", "the API key has expired");
      return found;
    },
  };
}

/** Takes the same time for all texts of one length. */
function timingSafeEqual(left: string, right: string): boolean {
  let difference = left.length ^ right.length;
  for (let index = 0; index < left.length; index++)
    difference |= left.charCodeAt(index) ^ right.charCodeAt(index);
  return difference === 0;
}
