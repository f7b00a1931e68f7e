// Rate limit: counts requests per principal, or per client address if the credential is missing or invalid. The header fields
// follow draft-ietf-httpapi-ratelimit-headers-11.

import type { Context, MiddlewareHandler } from "hono";
import { encodeLengthPrefixed, sha256Hex } from "../../core/hash.ts";
import type { RateLimits } from "../access/access-policy.ts";
import { principalOf } from "../access/authentication.ts";
import { parseClientAddress } from "../access/client-address.ts";
import type { RateLimit } from "../access/rate-limiter.ts";
import { scopeRequirementOf } from "../access/route-scopes.ts";
import type { AppEnv } from "../app-env.ts";
import { httpErrors } from "../errors.ts";

interface RateLimitSubject {
  /** Name of the limit in the header fields. */
  readonly policy: "key" | "address";
  readonly limit: RateLimit;
  readonly subject: string;
}

export function rateLimit({
  limiter,
  perPrincipal,
  perAddress,
  addressHeader,
}: RateLimits): MiddlewareHandler<AppEnv> {
  async function findSubject(c: Context<AppEnv>): Promise<RateLimitSubject | undefined> {
    const principal = principalOf(c.get("authentication"));
    if (principal !== undefined)
      return await createRateLimitSubject("key", principal.rateLimit ?? perPrincipal, [
        principal.tenant,
        principal.id,
      ]);
    const address = parseClientAddress(c.req.header(addressHeader));
    return address === undefined
      ? undefined
      : await createRateLimitSubject("address", perAddress, [address]);
  }

  return async function countRequest(c, next) {
    const counted =
      scopeRequirementOf(c.req.path).scope === undefined ? undefined : await findSubject(c);
    if (counted !== undefined) {
      const { policy, limit, subject } = counted;
      const { allowed, remaining, resetSeconds, retryAfterSeconds } = await c
        .get("context")
        .phases.measure("access", () => limiter.take(subject, limit));
      c.header("ratelimit-policy", `"${policy}";q=${limit.requests};w=${limit.windowSeconds}`);
      c.header("ratelimit", `"${policy}";r=${remaining};t=${resetSeconds}`);
      if (!allowed)
        throw httpErrors.rateLimited(limit.requests, limit.windowSeconds, retryAfterSeconds);
    }
    await next();
  };
}

/** The subject includes the limit, so that a changed limit starts with a full bucket. */
async function createRateLimitSubject(
  policy: RateLimitSubject["policy"],
  limit: RateLimit | undefined,
  fields: readonly string[],
): Promise<RateLimitSubject | undefined> {
  if (limit === undefined) return undefined;
  return {
    policy,
    limit,
    subject: await sha256Hex(
      encodeLengthPrefixed([policy, ...fields, `${limit.requests}/${limit.windowSeconds}`]),
    ),
  };
}
