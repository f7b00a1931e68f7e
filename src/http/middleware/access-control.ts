// Who asks, how often, and whether they may: three steps in that order, so that refused requests are counted, too.

import { httpErrors } from "../errors.ts";
import type { Context, MiddlewareHandler } from "hono";
import { asEdgeTierError } from "../../core/errors.ts";
import type { AccessPolicy } from "../access/access-policy.ts";
import type { Authenticator } from "../access/authenticator.ts";
import type { Authentication } from "../access/authentication.ts";
import { scopeRequirementOf } from "../access/route-scopes.ts";
import type { AppEnv } from "../app-env.ts";
import { rateLimit } from "./rate-limit.ts";

const REALM = 'Bearer realm="edgetier"';

type Handlers = [MiddlewareHandler<AppEnv>, ...MiddlewareHandler<AppEnv>[]];

export function accessControl({
  authenticators,
  rateLimits: limits,
  metricsScope,
}: AccessPolicy): Handlers {
  return [
    authenticate(authenticators),
    ...(limits === undefined ? [] : [rateLimit(limits)]),
    authorize(authenticators.length > 0, metricsScope),
  ];
}

function authenticate(authenticators: readonly Authenticator[]): MiddlewareHandler<AppEnv> {
  return async function findPrincipal(c, next) {
    if (authenticators.length > 0 && scopeRequirementOf(c.req.path).scope !== undefined) {
      c.set(
        "authentication",
        await c
          .get("context")
          .phases.measure("access", () => authenticateRequest(c, authenticators)),
      );
    }
    await next();
  };
}

async function authenticateRequest(
  c: Context<AppEnv>,
  authenticators: readonly Authenticator[],
): Promise<Authentication> {
  // RFC 6750, section 2.1; and no other header: what caches and proxies treat as secret is this one.
  const credential = /^Bearer +([\w.~+/-]+=*) *$/i.exec(c.req.header("authorization") ?? "")?.[1];
  if (credential === undefined) return { error: httpErrors.missingCredential() };
  const authenticator = authenticators.find((one) => one.recognizes(credential));
  if (authenticator === undefined)
    return { error: httpErrors.invalidCredential("it has the form of none that is taken here") };
  try {
    return { principal: await authenticator.authenticate(credential) };
  } catch (error) {
    return { error: asEdgeTierError(error) };
  }
}

/** @param isClosed whether there is any credential; without one only administration is closed */
function authorize(
  isClosed: boolean,
  metricsScope: AccessPolicy["metricsScope"],
): MiddlewareHandler<AppEnv> {
  return async function requireScope(c, next) {
    const { scope } = scopeRequirementOf(c.req.path, metricsScope);
    if (scope === undefined || (!isClosed && scope !== "admin")) return await next();
    const identity = c.get("authentication") ?? { error: httpErrors.missingCredential() };
    if ("error" in identity) {
      const { code, status, detail } = identity.error;
      // RFC 6750, section 3: without a credential the challenge says no more.
      if (status === 401)
        c.header(
          "www-authenticate",
          code === "missing_credential"
            ? REALM
            : `${REALM}, error="invalid_token", error_description="${detail.replaceAll('"', "'")}"`,
        );
      throw identity.error;
    }
    const { scopes, tenant } = identity.principal;
    if (!scopes.includes(scope)) {
      c.header("www-authenticate", `${REALM}, error="insufficient_scope", scope="${scope}"`);
      throw httpErrors.missingScope(scope, scopes);
    }
    c.set("tenant", tenant);
    await next();
    makeResponsePrivate(c);
  };
}

/** What is told to one tenant must stay in no cache that others read (RFC 9111, section 3.5). */
function makeResponsePrivate(c: Context<AppEnv>): void {
  const directives = (c.res.headers.get("cache-control") ?? "").split(",").map((one) => one.trim());
  c.header(
    "cache-control",
    [
      "private",
      ...directives.filter((one) => one !== "" && !/^(public|private|s-maxage)/i.test(one)),
    ].join(", "),
  );
  c.header("vary", "authorization", { append: true });
  for (const name of ["cache-tag", "cdn-cache-control", "cloudflare-cdn-cache-control"])
    c.header(name, undefined);
}
