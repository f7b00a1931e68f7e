// Who may ask this edge, and how often: what the middleware needs of it.

import type { Authenticator, Scope } from "./authenticator.ts";
import type { RateLimit, RateLimiter } from "./rate-limiter.ts";

export interface RateLimits {
  readonly limiter: RateLimiter;
  /** For each key, and each one a token is about, that has no limit of its own. */
  readonly perPrincipal?: RateLimit | undefined;
  /** For each client address that brings no valid credential. */
  readonly perAddress?: RateLimit | undefined;
  /** Which header has the address; whoever is in front of the edge must set it, and let none through. */
  readonly addressHeader: string;
}

export interface AccessPolicy {
  /** Without any, everybody may predict and look; administration is closed to all. */
  readonly authenticators: readonly Authenticator[];
  readonly rateLimits?: RateLimits | undefined;
  /** Web pages of these origins may ask from browsers; `*` for all. */
  readonly corsOrigins?: readonly string[] | undefined;
  /** What GET /metrics needs; `admin` by default. */
  readonly metricsScope?: Scope | undefined;
}

export const OPEN_ACCESS: AccessPolicy = { authenticators: [] };
