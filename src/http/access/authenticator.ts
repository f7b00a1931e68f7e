// The port behind which it is found out whose a request is.

import type { RateLimit } from "./rate-limiter.ts";

/** What a credential allows: answers; what is served and how it is; what changes or watches the deployment. */
export const SCOPES = ["predict", "metadata", "admin"] as const;
export type Scope = (typeof SCOPES)[number];

export interface Principal {
  /** Of the key, or of whom the token is about; not secret. */
  readonly id: string;
  readonly tenant: string;
  readonly scopes: readonly Scope[];
  /** The only models it may ask; all where it is left out. */
  readonly models?: readonly string[] | undefined;
  /** In place of the deployment's own. */
  readonly rateLimit?: RateLimit | undefined;
}

export interface Authenticator {
  /** By its form alone: whether it is this driver's to judge. */
  recognizes(credential: string): boolean;
  /** @throws invalid_credential with why, and never with the credential; identity_unavailable */
  authenticate(credential: string): Promise<Principal>;
}
