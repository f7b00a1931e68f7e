// What of a request to a region its signature covers (RFC 9421), for both sides of it.
//
// Scheme and authority are left out (`@path` and `@query`, not `@target-uri`): TLS may end before the region, and an ingress
// may ask it by another name. What is signed for one region is therefore good for every one with the same key.

import type { Clock } from "../core/clock.ts";
import { toBase64 } from "../core/base64.ts";
import {
  computeContentDigest,
  signMessage,
  type SignedMessage,
} from "../protocol/message-signature.ts";
import { JSON_LENGTH_HEADER } from "../protocol/open-inference.ts";

const LABEL = "edgetier";
const NONCE_BYTES = 18;
/** Headers that change what a region does. Each must be covered where it is there, so that none can be added on the way. */
const SIGNED_HEADERS = [
  "content-type",
  "content-encoding",
  JSON_LENGTH_HEADER,
  "x-deadline-ms",
  "x-request-id",
];

/** Where a body is not read, nothing is digested. */
const hasBody = (method: string): boolean => method !== "GET" && method !== "HEAD";

/** What a signature has to cover, at least. */
export function requiredComponents({ method, headers }: SignedMessage): string[] {
  return [
    "@method",
    "@path",
    "@query",
    ...(hasBody(method) ? ["content-digest"] : []),
    ...SIGNED_HEADERS.filter((name) => headers.has(name)),
  ];
}

/** @returns the request's headers with its digest and signature */
export async function signRequest(
  request: SignedMessage & { readonly body: Uint8Array<ArrayBuffer> },
  keyId: string,
  key: CryptoKey,
  clock: Clock,
): Promise<Headers> {
  const headers = new Headers(request.headers);
  if (hasBody(request.method))
    headers.set("content-digest", await computeContentDigest(request.body));
  const message = { method: request.method, url: request.url, headers };
  const parameters = {
    created: Math.floor(clock.now() / 1_000),
    keyId,
    nonce: toBase64(crypto.getRandomValues(new Uint8Array(NONCE_BYTES))),
  };
  const signature = await signMessage(message, requiredComponents(message), parameters, key, LABEL);
  for (const [name, value] of Object.entries(signature)) headers.set(name, value);
  return headers;
}
