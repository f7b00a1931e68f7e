// The nonces of signed requests, each for as long as its request could be sent again. Nothing makes it forget one earlier:
// when it is full, it says so.

import { regionServerErrors } from "../errors.ts";
import type { Clock } from "../../../core/clock.ts";

export interface NonceStore {
  /**
   * @param expiresAtMs from when on the request is refused anyway
   * @returns false for one that is known
   * @throws nonces_full
   */
  tryAdd(nonce: string, expiresAtMs: number): boolean;
}

export function createNonceStore(clock: Clock, maxNonces: number): NonceStore {
  /** By the moment at which they expire; requests of one second have it in common. */
  const byExpiry = new Map<number, Set<string>>();
  let count = 0;
  /** A clock that is set back makes no request new again. */
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
