// Port: authenticates a request and returns its principal.

import type { RateLimit } from "./rate-limiter.ts";

/** `predict` allows inference, `metadata` reads models and status, `admin` changes or monitors the deployment. */
export const SCOPES = ["predict", "metadata", "admin"] as const;
export type Scope = (typeof SCOPES)[number];

export interface Principal {
  /** Id of the API key, or subject of the token; not secret. */
  readonly id: string;
  readonly tenant: string;
  readonly scopes: readonly Scope[];
  /** Allowed models; absent allows all. */
  readonly models?: readonly string[] | undefined;
  /** Overrides the deployment's limit. */
  readonly rateLimit?: RateLimit | undefined;
}

export interface Authenticator {
  /** Whether the credential has this driver's format. */
  readonly recognizes: (credential: string) => boolean;
  /** @throws invalid_credential with the reason, never the credential; identity_unavailable */
  authenticate(credential: string): Promise<Principal>;
}
