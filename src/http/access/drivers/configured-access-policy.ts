// Configured access policy: selects the access drivers from the configuration.

import type { Clock } from "../../../core/clock.ts";
import { reasonOf } from "../../../core/errors.ts";
import type { EdgeConfig } from "../../config.ts";
import type { AccessPolicy, RateLimits } from "../access-policy.ts";
import type { Authenticator } from "../authenticator.ts";
import { createApiKeyAuthenticator } from "./api-key-authenticator.ts";
import { createIsolateRateLimiter } from "./isolate-limiter.ts";
import { createRemoteKeySet, createStaticKeySet } from "./jwks.ts";
import { createJwtAuthenticator } from "./jwt-authenticator.ts";
import { createRedisRateLimiter } from "./redis-limiter.ts";

/** Upstash's errors contain the whole command, so causes are truncated. */
const MAX_CAUSE_CHARACTERS = 200;

export interface AccessPolicyDependencies {
  readonly clock: Clock;
  readonly log: (record: Readonly<Record<string, unknown>>) => void;
}

export function createConfiguredAccessPolicy(
  config: EdgeConfig,
  { clock, log }: AccessPolicyDependencies,
): AccessPolicy {
  const warn = (event: string) => (error: unknown) =>
    log({ level: "warn", event, cause: reasonOf(error).slice(0, MAX_CAUSE_CHARACTERS) });
  const authenticators: Authenticator[] = [];
  if (config.EDGETIER_API_KEYS !== undefined)
    authenticators.push(createApiKeyAuthenticator(config.EDGETIER_API_KEYS, clock));
  const jwtAuthenticator = createConfiguredJwtAuthenticator(config, clock, warn("jwks_failed"));
  if (jwtAuthenticator !== undefined) authenticators.push(jwtAuthenticator);
  return {
    authenticators,
    rateLimits: createConfiguredRateLimits(config, clock, warn("rate_limiter_failed")),
    corsOrigins: config.EDGETIER_CORS_ORIGINS,
    metricsScope: config.EDGETIER_METRICS_SCOPE,
  };
}

function createConfiguredJwtAuthenticator(
  config: EdgeConfig,
  clock: Clock,
  onFailure: (error: unknown) => void,
): Authenticator | undefined {
  const {
    EDGETIER_JWT_ISSUER: issuer,
    EDGETIER_JWT_AUDIENCE: audience,
    EDGETIER_JWT_ALGORITHM: algorithm,
    EDGETIER_JWT_JWKS: jwks,
    EDGETIER_JWT_JWKS_URL: url,
  } = config;
  if (issuer === undefined || audience === undefined || algorithm === undefined) return undefined;
  const keys =
    url === undefined
      ? createStaticKeySet(jwks ?? { keys: [] }, algorithm)
      : createRemoteKeySet({ url, algorithm, clock, onFailure });
  return createJwtAuthenticator({
    issuer,
    audience,
    algorithm,
    keys,
    clock,
    tenantClaim: config.EDGETIER_JWT_TENANT_CLAIM,
    scopeClaim: config.EDGETIER_JWT_SCOPE_CLAIM,
  });
}

function createConfiguredRateLimits(
  config: EdgeConfig,
  clock: Clock,
  onFailure: (error: unknown) => void,
): RateLimits | undefined {
  const {
    EDGETIER_RATE_LIMIT: perPrincipal,
    EDGETIER_ADDRESS_RATE_LIMIT: perAddress,
    EDGETIER_REDIS_REST_URL: url,
    EDGETIER_REDIS_REST_TOKEN: token,
  } = config;
  const hasKeyLimits =
    config.EDGETIER_API_KEYS?.some(({ rateLimit }) => rateLimit !== undefined) === true;
  if (perPrincipal === undefined && perAddress === undefined && !hasKeyLimits) return undefined;
  const isShared =
    config.EDGETIER_RATE_LIMIT_STORE === "redis" && url !== undefined && token !== undefined;
  const limiter = isShared
    ? createRedisRateLimiter({
        url,
        token,
        timeoutMs: config.EDGETIER_REDIS_TIMEOUT_MS,
        clock,
        onFailure,
      })
    : createIsolateRateLimiter(clock);
  return {
    limiter,
    perPrincipal,
    perAddress,
    addressHeader: config.EDGETIER_CLIENT_ADDRESS_HEADER,
  };
}
