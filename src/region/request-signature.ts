// Signs requests to a region (RFC 9421), and defines for signer and verifier which components the signature covers.
//
// The signature covers `@path` and `@query` instead of `@target-uri`. TLS may end before the region, and an ingress may
// rewrite the host name, so scheme and authority cannot be checked. A signature is therefore valid for every region with the same key.

import { toBase64 } from "../core/base64.ts";
import type { Clock } from "../core/clock.ts";
import {
  computeContentDigest,
  signMessage,
  type SignedMessage,
} from "../protocol/message-signature.ts";
import { JSON_LENGTH_HEADER } from "../protocol/open-inference.ts";

const LABEL = "edgetier";
const NONCE_BYTES = 18;
/** Headers that change the region's behavior. A signature covers each one present, so that none can be added in transit. */
const SIGNED_HEADERS = [
  "content-type",
  "content-encoding",
  JSON_LENGTH_HEADER,
  "x-deadline-ms",
  "x-request-id",
];

/** GET and HEAD bodies are never read, so they have no digest. */
const hasBody = (method: string): boolean => method !== "GET" && method !== "HEAD";

/** Returns the components that a signature must cover at least. */
export function requiredComponents({ method, headers }: SignedMessage): string[] {
  return [
    "@method",
    "@path",
    "@query",
    ...(hasBody(method) ? ["content-digest"] : []),
    ...SIGNED_HEADERS.filter((name) => headers.has(name)),
  ];
}

/** @returns the request's headers plus content digest and signature */
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
