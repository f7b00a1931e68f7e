// Replay protection: remembers the nonce of each signed request until the request expires. No nonce is forgotten earlier; a
// full store rejects further requests.

import type { Clock } from "../../../core/clock.ts";
import { regionServerErrors } from "../errors.ts";

export interface NonceStore {
  /**
   * @param expiresAtMs time from which the request is rejected anyway
   * @returns false for a known nonce
   * @throws nonces_full
   */
  tryAdd(nonce: string, expiresAtMs: number): boolean;
}

export function createNonceStore(clock: Clock, maxNonces: number): NonceStore {
  /** Nonces by expiry time, which requests of the same second share. */
  const byExpiry = new Map<number, Set<string>>();
  let count = 0;
  /** Latest expiry that was forgotten. A clock that is set back must not make an old request acceptable again. */
  let forgottenUpToMs = -Infinity;

  function forgetExpired(): void {
    const nowMs = clock.now();
    for (const [expiresAtMs, nonces] of byExpiry) {
      if (expiresAtMs >= nowMs) continue;
      byExpiry.delete(expiresAtMs);
      count -= nonces.size;
      forgottenUpToMs = Math.max(forgottenUpToMs, expiresAtMs);
    }
  }

  return {
    tryAdd(nonce, expiresAtMs) {
      forgetExpired();
      const nonces = byExpiry.get(expiresAtMs) ?? new Set();
      if (expiresAtMs <= forgottenUpToMs || nonces.has(nonce)) return false;
      if (count >= maxNonces) throw regionServerErrors.noncesFull(maxNonces);
      byExpiry.set(expiresAtMs, nonces.add(nonce));
      count++;
      return true;
    },
  };
}
