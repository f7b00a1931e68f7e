// The variables of access: keys, tokens, rate limits and origins. Problems never repeat a value: it may be a secret.

import * as z from "zod";
import { jsonText } from "../../core/config.ts";
import type { ApiKeyEntry } from "./api-key.ts";
import { SCOPES } from "./authenticator.ts";
import { JWT_ALGORITHMS, jwksSchema } from "./jwks-schema.ts";
import type { RateLimit } from "./rate-limiter.ts";

const optionalText = () => z.string().min(1).optional();

const rateLimitObject = z.object({
  requests: z.int().min(1).max(1_000_000),
  windowSeconds: z.int().min(1).max(86_400),
});

export const apiKeyEntrySchema = z.strictObject({
  id: z.string().min(1).max(64),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/, "must be 64 hex digits: the hash of a key, and never the key"),
  tenant: z.string().min(1).max(256),
  scopes: z.array(z.enum(SCOPES)).min(1),
  rateLimit: rateLimitObject.optional(),
  models: z.array(z.string()).min(1).optional(),
  expiresAt: z.iso.datetime({ offset: true }).optional(),
});

const apiKeysSchema = jsonText(() => "must be a JSON array of what `edgetier keys create` prints")
  .pipe(z.array(apiKeyEntrySchema).min(1))
  .refine((keys) => new Set(keys.map(({ id }) => id)).size === keys.length, "two keys have one id")
  .transform((keys) =>
    keys.map(({ expiresAt, ...entry }): ApiKeyEntry => ({
      ...entry,
      expiresAtMs: expiresAt === undefined ? undefined : Date.parse(expiresAt),
    })),
  );

/** Such as `100/60`: 100 requests in 60 seconds. */
export const rateLimitSchema = z
  .string()
  .regex(/^\d{1,7}\/\d{1,5}$/, "must be <requests>/<seconds>, such as 100/60")
  .transform((limit): RateLimit => {
    const [requests = 0, windowSeconds = 0] = limit.split("/").map(Number);
    return { requests, windowSeconds };
  })
  .pipe(rateLimitObject);

const corsOriginsSchema = z
  .string()
  .transform((list) => list.split(",").map((origin) => origin.trim()))
  .refine(
    (list) => list.every((origin) => (origin === "*" ? list.length === 1 : isOrigin(origin))),
    "must be * or origins such as https://app.example.com, with commas between them",
  );

export const accessVariables = {
  /** With keys or tokens, each request needs one; without either, everybody may predict and look. */
  EDGETIER_API_KEYS: apiKeysSchema.optional(),
  EDGETIER_JWT_ISSUER: optionalText(),
  EDGETIER_JWT_AUDIENCE: optionalText(),
  EDGETIER_JWT_ALGORITHM: z.enum(JWT_ALGORITHMS).optional(),
  /** The issuer's keys: where they are fetched, or the key set itself. */
  EDGETIER_JWT_JWKS_URL: z
    .url()
    .refine(isSecureUrl, "must be https, or on this machine")
    .optional(),
  EDGETIER_JWT_JWKS: jsonText(() => "must be a JSON Web Key Set")
    .pipe(jwksSchema)
    .optional(),
  EDGETIER_JWT_TENANT_CLAIM: z.string().min(1).default("tenant"),
  EDGETIER_JWT_SCOPE_CLAIM: z.string().min(1).default("scope"),
  /** For each key that has no limit of its own, and each subject of tokens. */
  EDGETIER_RATE_LIMIT: rateLimitSchema.optional(),
  /** For each client address that brings no valid credential. */
  EDGETIER_ADDRESS_RATE_LIMIT: rateLimitSchema.optional(),
  /** `redis`, the default where there is one: isolates count together, for a round trip a request. `isolate`: each for itself. */
  EDGETIER_RATE_LIMIT_STORE: z.enum(["redis", "isolate"]).default("redis"),
  /** Cloudflare sets the default, and clients cannot; behind anything else, name the header that it sets. */
  EDGETIER_CLIENT_ADDRESS_HEADER: z
    .string()
    .regex(/^[\w-]+$/, "must be the name of a header")
    .default("cf-connecting-ip"),
  EDGETIER_CORS_ORIGINS: corsOriginsSchema.optional(),
};

type JwtConfig = {
  readonly [
    Name in `EDGETIER_JWT_${"ISSUER" | "AUDIENCE" | "ALGORITHM" | "JWKS_URL" | "JWKS"}`
  ]?: unknown;
};

export const JWT_VARIABLES_MESSAGE =
  "EDGETIER_JWT_ISSUER, _AUDIENCE, _ALGORITHM and one of _JWKS_URL and _JWKS go together";

/** All of them, or none. */
export function hasCompleteJwtConfig(config: JwtConfig): boolean {
  const {
    EDGETIER_JWT_ISSUER,
    EDGETIER_JWT_AUDIENCE,
    EDGETIER_JWT_ALGORITHM,
    EDGETIER_JWT_JWKS_URL,
    EDGETIER_JWT_JWKS,
  } = config;
  const set = [EDGETIER_JWT_ISSUER, EDGETIER_JWT_AUDIENCE, EDGETIER_JWT_ALGORITHM].filter(
    (one) => one !== undefined,
  ).length;
  const keySources = [EDGETIER_JWT_JWKS_URL, EDGETIER_JWT_JWKS].filter(
    (one) => one !== undefined,
  ).length;
  return (set === 0 && keySources === 0) || (set === 3 && keySources === 1);
}

function isOrigin(value: string): boolean {
  try {
    return new URL(value).origin === value && /^https?:/.test(value);
  } catch {
    return false;
  }
}

function isSecureUrl(address: string): boolean {
  const { protocol, hostname } = new URL(address);
  return (
    protocol === "https:" || (protocol === "http:" && ["127.0.0.1", "localhost"].includes(hostname))
  );
}
