// Access control: authenticates, rate-limits and authorizes, in this order, so that rejected requests are counted too.

import type { Context, MiddlewareHandler } from "hono";
import { asEdgeTierError } from "../../core/errors.ts";
import type { AccessPolicy } from "../access/access-policy.ts";
import type { Authentication } from "../access/authentication.ts";
import type { Authenticator } from "../access/authenticator.ts";
import { scopeRequirementOf } from "../access/route-scopes.ts";
import type { AppEnv } from "../app-env.ts";
import { httpErrors } from "../errors.ts";
import { rateLimit } from "./rate-limit.ts";

const REALM = 'Bearer realm="edgetier"';

type Handlers = [MiddlewareHandler<AppEnv>, ...MiddlewareHandler<AppEnv>[]];

export function accessControl({
  authenticators,
  rateLimits,
  metricsScope,
}: AccessPolicy): Handlers {
  return [
    authenticate(authenticators),
    ...(rateLimits === undefined ? [] : [rateLimit(rateLimits)]),
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
  // Only this header carries credentials (RFC 6750, section 2.1), because caches and proxies treat it as secret.
  const credential = /^Bearer +([\w.~+/-]+=*) *$/i.exec(c.req.header("authorization") ?? "")?.[1];
  if (credential === undefined) return { error: httpErrors.missingCredential() };
  const authenticator = authenticators.find(({ recognizes }) => recognizes(credential));
  if (authenticator === undefined)
    return { error: httpErrors.invalidCredential("unknown_kind", "neither an API key nor a JWT") };
  try {
    return { principal: await authenticator.authenticate(credential) };
  } catch (error) {
    return { error: asEdgeTierError(error) };
  }
}

/** @param requiresCredential false leaves every scope except `admin` open */
function authorize(
  requiresCredential: boolean,
  metricsScope: AccessPolicy["metricsScope"],
): MiddlewareHandler<AppEnv> {
  return async function requireScope(c, next) {
    const { scope } = scopeRequirementOf(c.req.path, metricsScope);
    if (scope === undefined || (!requiresCredential && scope !== "admin")) return await next();
    const authentication = c.get("authentication") ?? { error: httpErrors.missingCredential() };
    if ("error" in authentication) {
      const { code, status, detail } = authentication.error;
      // Without a credential the challenge carries no error code (RFC 6750, section 3).
      if (status === 401)
        c.header(
          "www-authenticate",
          code === "missing_credential"
            ? REALM
            : `${REALM}, error="invalid_token", error_description="${detail.replaceAll('"', "'")}"`,
        );
      throw authentication.error;
    }
    const { scopes, tenant } = authentication.principal;
    if (!scopes.includes(scope)) {
      c.header("www-authenticate", `${REALM}, error="insufficient_scope", scope="${scope}"`);
      throw httpErrors.missingScope(scope, scopes);
    }
    c.set("tenant", tenant);
    await next();
    makeResponsePrivate(c);
  };
}

/** Keeps a tenant's response out of shared caches (RFC 9111, section 3.5). */
function makeResponsePrivate(c: Context<AppEnv>): void {
  const directives = (c.res.headers.get("cache-control") ?? "")
    .split(",")
    .map((directive) => directive.trim());
  c.header(
    "cache-control",
    [
      "private",
      ...directives.filter(
        (directive) => directive !== "" && !/^(public|private|s-maxage)/i.test(directive),
      ),
    ].join(", "),
  );
  c.header("vary", "authorization", { append: true });
  for (const name of ["cache-tag", "cdn-cache-control", "cloudflare-cdn-cache-control"])
    c.header(name, undefined);
}
