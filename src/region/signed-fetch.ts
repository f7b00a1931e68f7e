// The fetch of a region client: signs what it sends, where there is a key.

import { type Clock, systemClock } from "../core/clock.ts";
import { importHmacKey } from "../protocol/message-signature.ts";
import type { RegionKey } from "./region-keys.ts";
import { signRequest } from "./request-signature.ts";

export type RegionRequestInit = Omit<RequestInit, "body"> & {
  readonly body?: Uint8Array<ArrayBuffer>;
};
export type RegionFetch = (url: string, init: RegionRequestInit) => Promise<Response>;

// Called without `this`: workerd's fetch refuses any other.
export const plainFetch: RegionFetch = (url, init) => fetch(url, init);

/** @param key undefined for a region that believes everyone */
export function createSignedFetch(
  key: RegionKey | undefined,
  {
    clock = systemClock,
    send = plainFetch,
  }: { readonly clock?: Clock; readonly send?: RegionFetch | undefined } = {},
): RegionFetch {
  if (key === undefined) return send;
  let imported: CryptoKey | undefined; // and no promise of it: one request must not await another's

  return async function signedFetch(url, init) {
    imported ??= await importHmacKey(key.secret);
    const { method = "GET", body = new Uint8Array() } = init;
    const headers = await signRequest(
      { method, url: new URL(url).href, headers: new Headers(init.headers), body },
      key.id,
      imported,
      clock,
    );
    return await send(url, { ...init, headers });
  };
}
