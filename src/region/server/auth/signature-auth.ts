// Middleware that admits only signed requests (RFC 9421), before reading anything but their headers. The body's reader checks
// it against the signed digest.

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
import { regionServerErrors } from "../errors.ts";
import type { RegionEnv } from "../routes/route-helpers.ts";
import { createNonceStore } from "./nonce-store.ts";

export interface SignatureAuthOptions {
  /** Trusted keys; several during a key rotation. */
  readonly keys: readonly RegionKey[];
  /** Exact paths that need no signature. */
  readonly publicPaths?: readonly string[];
  /** Maximum difference between a request's `created` and this clock. */
  readonly clockToleranceMs?: number;
  /** Maximum number of remembered requests; each is remembered for at most twice the tolerance. */
  readonly maxNonces?: number;
  readonly clock?: Clock;
}

/** Long enough to be unique and short enough to remember. */
const NONCE_PATTERN = /^.{16,64}$/;

/** The middleware throws signature_refused and nonces_full. */
export async function createSignatureAuth({
  keys,
  publicPaths = [],
  clockToleranceMs = 30_000,
  maxNonces = 262_144,
  clock = systemClock,
}: SignatureAuthOptions): Promise<MiddlewareHandler<RegionEnv>> {
  const publicPathSet = new Set(publicPaths);
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
        request.headers.has("signature") ? "it cannot be parsed" : "the request has none",
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
        "it needs `created` and a nonce of 16 to 64 characters",
      );
    const nowMs = clock.now();
    if (Math.abs(nowMs - created * 1_000) > clockToleranceMs)
      throw regionServerErrors.signatureRefused(
        `it was created ${Math.round((nowMs - created * 1_000) / 1_000)} s before this region's clock, and the tolerance is ${clockToleranceMs / 1_000} s in either direction`,
      );
    if (typeof expires === "number" && expires * 1_000 < nowMs)
      throw regionServerErrors.signatureRefused("it has expired");

    const key = keyById.get(String(keyId));
    if (key === undefined) throw regionServerErrors.signatureRefused("its key is unknown");
    if (!(await verifyMessage(request, signature, key)))
      throw regionServerErrors.signatureRefused("it does not match the request");
    // The nonce is added last, so that only holders of a key can fill the store.
    if (!nonces.tryAdd(`${String(keyId)} ${nonce}`, created * 1_000 + clockToleranceMs))
      throw regionServerErrors.signatureRefused("the request was already received");
  }

  return async function admitSigned(c, next) {
    if (publicPathSet.has(c.req.path)) return await next();
    const { headers } = c.req.raw;
    await checkHeaders(c.req.raw);
    c.set("checkBody", createDigestCheck(headers.get("content-digest")));
    return await next();
  };
}

function createDigestCheck(digest: string | null): BodyVerifier {
  return async (received) => {
    if ((await computeContentDigest(received)) !== digest)
      throw regionServerErrors.signatureRefused("its content-digest does not match the body");
  };
}
