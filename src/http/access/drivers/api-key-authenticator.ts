// Authenticates by API keys, of which only hashes are known.

import { httpErrors } from "../../errors.ts";
import type { Clock } from "../../../core/clock.ts";
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
        throw httpErrors.invalidCredential("the API key is truncated or mistyped");
      const hash = await hashApiKey(credential);
      let found: ApiKeyEntry | undefined;
      for (const entry of entries) if (timingSafeEqual(entry.sha256, hash)) found = entry; // all of them, whichever it is
      if (found === undefined) throw httpErrors.invalidCredential("the API key is not known");
      if (found.expiresAtMs !== undefined && clock.now() >= found.expiresAtMs)
        throw httpErrors.invalidCredential("the API key has expired");
      return found;
    },
  };
}

/** In a time that does not tell where two texts of one length differ. */
function timingSafeEqual(one: string, other: string): boolean {
  let difference = one.length ^ other.length;
  for (let at = 0; at < one.length; at++) difference |= one.charCodeAt(at) ^ other.charCodeAt(at);
  return difference === 0;
}
