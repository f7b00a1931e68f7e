// JWT authenticator: verifies JSON Web Tokens (RFC 7519, RFC 8725) of one issuer and one algorithm, with keys found by `kid`.
// Key material in the token itself (`jku`, `x5u`, `jwk`) is ignored. Claims are checked first, so that a token for another
// audience causes no fetch and no cryptography.

import { decode, verify } from "hono/utils/jwt/jwt";
import * as z from "zod";
import type { Clock } from "../../../core/clock.ts";
import { type EdgeTierError } from "../../../core/errors.ts";
import { httpErrors } from "../../errors.ts";
import { type Authenticator, type Principal, type Scope, SCOPES } from "../authenticator.ts";
import type { JwtAlgorithm } from "../jwks-schema.ts";
import type { KeySet } from "./jwks.ts";

export interface JwtAuthenticatorOptions {
  readonly issuer: string;
  readonly audience: string;
  readonly algorithm: JwtAlgorithm;
  readonly keys: KeySet;
  readonly clock: Clock;
  /** Name of the claim with the tenant, a string. */
  readonly tenantClaim: string;
  /** Name of the claim with the scopes: a space-separated string (RFC 8693, section 4.2) or an array. Unknown scopes are ignored. */
  readonly scopeClaim: string;
  /** Allowed clock difference. */
  readonly leewaySeconds?: number;
}

const MAX_CHARACTERS = 8_192;
const JWT_PATTERN = /^[\w-]+\.[\w-]+\.[\w-]*$/;
/** RFC 9068 defines `at+jwt` for access tokens. */
const TOKEN_TYPES = ["JWT", "at+jwt"];

const headerSchema = z.object({
  alg: z.string(),
  kid: z.string().min(1).max(256),
  typ: z.string().optional(),
});
const claimsSchema = z.looseObject({
  iss: z.string(),
  sub: z.string().min(1).max(256).optional(),
  aud: z.union([z.string(), z.array(z.string())]),
  exp: z.number(),
  nbf: z.number().optional(),
});
type Claims = z.output<typeof claimsSchema>;

export function createJwtAuthenticator(options: JwtAuthenticatorOptions): Authenticator {
  const { algorithm, keys, clock, issuer, audience, leewaySeconds = 30 } = options;

  function check({ iss, aud, exp, nbf }: Claims): void {
    const nowSeconds = clock.now() / 1000;
    if (iss !== issuer) throw invalidToken("issuer", "is of another issuer");
    if (![aud].flat().includes(audience)) throw invalidToken("audience", "is for another audience");
    if (nowSeconds >= exp + leewaySeconds) throw invalidToken("expired", "has expired");
    if (nbf !== undefined && nowSeconds < nbf - leewaySeconds)
      throw invalidToken("not_yet_valid", "is not valid yet");
  }

  function toPrincipal(claims: Claims): Principal {
    const tenant = tenantSchema.safeParse(claims[options.tenantClaim]);
    if (!tenant.success)
      throw invalidToken("tenant", `lacks the tenant claim ${options.tenantClaim}`);
    return {
      id: claims.sub ?? tenant.data,
      tenant: tenant.data,
      scopes: parseScopes(claims[options.scopeClaim]),
    };
  }

  return {
    recognizes: (credential) => JWT_PATTERN.test(credential),
    async authenticate(credential) {
      if (credential.length > MAX_CHARACTERS) throw invalidToken("too_long", "is too long");
      const { header, claims } = decodeToken(credential);
      if (header.alg !== algorithm)
        throw invalidToken("algorithm", `is not signed by ${algorithm}`);
      check(claims);
      const principal = toPrincipal(claims);
      const key = await keys.find(header.kid);
      if (key === undefined) throw invalidToken("key", "is signed with an unknown key");
      try {
        // `check` has compared the times with the application's clock.
        await verify(credential, key, {
          alg: algorithm,
          exp: false,
          nbf: false,
          iat: false,
          ...(header.typ === undefined ? {} : { typ: TOKEN_TYPES }),
        });
      } catch {
        throw invalidToken("signature", "has an invalid signature or header"); // the cause contains the token, so it is dropped
      }
      return principal;
    },
  };
}

const tenantSchema = z.string().min(1).max(256);
const invalidToken = (problem: string, reason: string): EdgeTierError =>
  httpErrors.invalidCredential(problem, `the token ${reason}`);

function decodeToken(token: string) {
  try {
    const { header, payload } = decode(token);
    return { header: headerSchema.parse(header), claims: claimsSchema.parse(payload) };
  } catch {
    throw invalidToken("malformed", "is malformed, or lacks one of alg, kid, iss, aud and exp");
  }
}

function parseScopes(claim: unknown): Scope[] {
  const names: readonly unknown[] =
    typeof claim === "string" ? claim.split(" ") : Array.isArray(claim) ? claim : [];
  return SCOPES.filter((scope) => names.includes(scope));
}
