// Lets only signed requests in (RFC 9421), before anything of them is read but their headers. The body is checked against its
// signed digest by whoever reads it.

import { regionServerErrors } from "../errors.ts";
import type { MiddlewareHandler } from "hono";
import { type Clock, systemClock } from "../../../core/clock.ts";
import {
  HMAC_ALGORITHM,
  computeContentDigest,
  importHmacKey,
  parseSignature,
  verifyMessage,
} from "../../../protocol/message-signature.ts";
import type { BodyVerifier } from "../../../protocol/read-request-body.ts";
import type { RegionKey } from "../../region-keys.ts";
import { requiredComponents } from "../../request-signature.ts";
import type { RegionEnv } from "../routes/route-helpers.ts";
import { createNonceStore } from "./nonce-store.ts";

export interface SignatureAuthOptions {
  /** Of which any may have signed: several while one replaces another. */
  readonly keys: readonly RegionKey[];
  /** Paths that anyone may ask for, as they are. */
  readonly publicPaths?: readonly string[];
  /** How far a request's `created` may be from this clock. */
  readonly clockToleranceMs?: number;
  /** Signed requests that are remembered, each for at most twice the tolerance. */
  readonly maxNonces?: number;
  readonly clock?: Clock;
}

/** Long enough to be unique, and short enough to be remembered. */
const NONCE_PATTERN = /^.{16,64}$/;

/** A middleware that throws signature_refused, nonces_full. */
export async function createSignatureAuth({
  keys,
  publicPaths: openPaths = [],
  clockToleranceMs: toleranceMs = 30_000,
  maxNonces = 262_144,
  clock = systemClock,
}: SignatureAuthOptions): Promise<MiddlewareHandler<RegionEnv>> {
  const open = new Set(openPaths);
  const keyById = new Map(
    await Promise.all(
      keys.map(async ({ id, secret }) => [id, await importHmacKey(secret)] as const),
    ),
  );
  const nonces = createNonceStore(clock, maxNonces);

  async function checkHeaders(request: Request): Promise<void> {
    const signature = parseSignature(request.headers);
    if (signature === undefined)
      throw regionServerErrors.signatureRefused(
        request.headers.has("signature") ? "it cannot be read" : "there is none",
      );
    const { components, parameters } = signature;
    const [keyId, algorithm, nonce, created, expires] = [
      "keyid",
      "alg",
      "nonce",
      "created",
      "expires",
    ].map((name) => parameters.get(name));
    if (algorithm !== undefined && algorithm !== HMAC_ALGORITHM)
      throw regionServerErrors.signatureRefused(`its algorithm is not ${HMAC_ALGORITHM}`);
    const missing = requiredComponents(request).filter((name) => !components.includes(name));
    if (missing.length > 0)
      throw regionServerErrors.signatureRefused(`it does not cover ${missing.join(", ")}`);
    if (typeof created !== "number" || typeof nonce !== "string" || !NONCE_PATTERN.test(nonce))
      throw regionServerErrors.signatureRefused(
        "it has no created, or no nonce of 16 to 64 characters",
      );
    const nowMs = clock.now();
    if (Math.abs(nowMs - created * 1_000) > toleranceMs)
      throw regionServerErrors.signatureRefused(
        `it was created ${Math.round((nowMs - created * 1_000) / 1_000)} s before this clock, and ${toleranceMs / 1_000} s either way are allowed`,
      );
    if (typeof expires === "number" && expires * 1_000 < nowMs)
      throw regionServerErrors.signatureRefused("it has expired");

    const key = keyById.get(String(keyId));
    if (key === undefined) throw regionServerErrors.signatureRefused("its key is not known here");
    if (!(await verifyMessage(request, signature, key)))
      throw regionServerErrors.signatureRefused("it is not that of this request");
    // Last, so that only those who have a key can fill the memory.
    if (!nonces.tryAdd(`${String(keyId)} ${nonce}`, created * 1_000 + toleranceMs))
      throw regionServerErrors.signatureRefused("this request has been here before");
  }

  return async function admitSigned(c, next) {
    if (open.has(c.req.path)) return await next();
    const { headers } = c.req.raw;
    await checkHeaders(c.req.raw);
    c.set("checkBody", createDigestCheck(headers.get("content-digest")));
    return await next();
  };
}

function createDigestCheck(digest: string | null): BodyVerifier {
  return async (received) => {
    if ((await computeContentDigest(received)) !== digest)
      throw regionServerErrors.signatureRefused("its content-digest is not that of the body");
  };
}
