// Access policy: authenticators, rate limits and origins for the access middleware.

import type { Authenticator, Scope } from "./authenticator.ts";
import type { RateLimit, RateLimiter } from "./rate-limiter.ts";

export interface RateLimits {
  readonly limiter: RateLimiter;
  /** Limit of each principal without a limit of its own. */
  readonly perPrincipal?: RateLimit | undefined;
  /** Limit of each client address that sends no valid credential. */
  readonly perAddress?: RateLimit | undefined;
  /** Header with the client address. The proxy in front of the edge must overwrite any value that clients send. */
  readonly addressHeader: string;
}

export interface AccessPolicy {
  /** If empty, predictions and metadata are public, and administration is closed. */
  readonly authenticators: readonly Authenticator[];
  readonly rateLimits?: RateLimits | undefined;
  /** Origins whose pages may call the API from browsers; `*` allows all. */
  readonly corsOrigins?: readonly string[] | undefined;
  /** Scope that GET /metrics requires; `admin` by default. */
  readonly metricsScope?: Scope | undefined;
}

export const OPEN_ACCESS: AccessPolicy = { authenticators: [] };
