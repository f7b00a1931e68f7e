// Fetch function of a region client: signs each request if a key is configured.

import { type Clock, systemClock } from "../core/clock.ts";
import { importHmacKey } from "../protocol/message-signature.ts";
import type { RegionKey } from "./region-keys.ts";
import { signRequest } from "./request-signature.ts";

export type RegionRequestInit = Omit<RequestInit, "body"> & {
  readonly body?: Uint8Array<ArrayBuffer>;
};
export type RegionFetch = (url: string, init: RegionRequestInit) => Promise<Response>;

// `fetch` is called as a function: workerd rejects any other `this`.
export const plainFetch: RegionFetch = (url, init) => fetch(url, init);

/** @param key undefined for a region that accepts unsigned requests */
export function createSignedFetch(
  key: RegionKey | undefined,
  {
    clock = systemClock,
    send = plainFetch,
  }: { readonly clock?: Clock; readonly send?: RegionFetch | undefined } = {},
): RegionFetch {
  if (key === undefined) return send;
  let imported: CryptoKey | undefined; // The key, not its promise: one request must not await another's in workerd.

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
