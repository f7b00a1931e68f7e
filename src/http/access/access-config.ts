// Access configuration: parses keys, tokens, rate limits and origins. Messages never repeat a value, because it may be secret.

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
    .regex(/^[0-9a-f]{64}$/, "must be the 64 hex digits of a key's SHA-256, never the key itself"),
  tenant: z.string().min(1).max(256),
  scopes: z.array(z.enum(SCOPES)).min(1),
  rateLimit: rateLimitObject.optional(),
  models: z.array(z.string()).min(1).optional(),
  expiresAt: z.iso.datetime({ offset: true }).optional(),
});

const apiKeysSchema = jsonText(
  () => "must be a JSON array of the entries that `edgetier keys create` prints",
)
  .pipe(z.array(apiKeyEntrySchema).min(1))
  .refine(
    (keys) => new Set(keys.map(({ id }) => id)).size === keys.length,
    "must not contain two keys with the same id",
  )
  .transform((keys) =>
    keys.map(({ expiresAt, ...entry }): ApiKeyEntry => ({
      ...entry,
      expiresAtMs: expiresAt === undefined ? undefined : Date.parse(expiresAt),
    })),
  );

/** Parses `<requests>/<seconds>`; `100/60` is 100 requests in 60 seconds. */
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
    "must be * or comma-separated origins such as https://app.example.com",
  );

export const accessVariables = {
  /** If API keys or JWTs are configured, each request requires one. Otherwise predictions and metadata are public. */
  EDGETIER_API_KEYS: apiKeysSchema.optional(),
  EDGETIER_JWT_ISSUER: optionalText(),
  EDGETIER_JWT_AUDIENCE: optionalText(),
  EDGETIER_JWT_ALGORITHM: z.enum(JWT_ALGORITHMS).optional(),
  /** URL of the issuer's key set; EDGETIER_JWT_JWKS holds the key set itself. */
  EDGETIER_JWT_JWKS_URL: z
    .url()
    .refine(isSecureUrl, "must be an https URL, or http on localhost")
    .optional(),
  EDGETIER_JWT_JWKS: jsonText(() => "must be a JSON Web Key Set")
    .pipe(jwksSchema)
    .optional(),
  EDGETIER_JWT_TENANT_CLAIM: z.string().min(1).default("tenant"),
  EDGETIER_JWT_SCOPE_CLAIM: z.string().min(1).default("scope"),
  /** Limit of each API key without a limit of its own, and of each token subject. */
  EDGETIER_RATE_LIMIT: rateLimitSchema.optional(),
  /** Limit of each client address that sends no valid credential. */
  EDGETIER_ADDRESS_RATE_LIMIT: rateLimitSchema.optional(),
  /** `redis` shares counts between isolates at one round trip per request; `isolate` counts locally. Without Redis it is `isolate`. */
  EDGETIER_RATE_LIMIT_STORE: z.enum(["redis", "isolate"]).default("redis"),
  /** Cloudflare sets the default header, and clients cannot forge it. Behind another proxy, name the header that it sets. */
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
  "must be set together with EDGETIER_JWT_AUDIENCE, EDGETIER_JWT_ALGORITHM and one of EDGETIER_JWT_JWKS_URL and EDGETIER_JWT_JWKS";

/** Whether the configuration sets all JWT variables or none. */
export function hasCompleteJwtConfig(config: JwtConfig): boolean {
  const {
    EDGETIER_JWT_ISSUER,
    EDGETIER_JWT_AUDIENCE,
    EDGETIER_JWT_ALGORITHM,
    EDGETIER_JWT_JWKS_URL,
    EDGETIER_JWT_JWKS,
  } = config;
  const settingCount = [EDGETIER_JWT_ISSUER, EDGETIER_JWT_AUDIENCE, EDGETIER_JWT_ALGORITHM].filter(
    (value) => value !== undefined,
  ).length;
  const keySourceCount = [EDGETIER_JWT_JWKS_URL, EDGETIER_JWT_JWKS].filter(
    (value) => value !== undefined,
  ).length;
  return (
    (settingCount === 0 && keySourceCount === 0) || (settingCount === 3 && keySourceCount === 1)
  );
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
