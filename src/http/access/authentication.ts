// Whose a request is, once that has been asked.

import type { EdgeTierError } from "../../core/errors.ts";
import type { Principal } from "./authenticator.ts";

/** A refusal is kept until the request has been counted. */
export type Authentication = { readonly principal: Principal } | { readonly error: EdgeTierError };

export const principalOf = (identity: Authentication | undefined): Principal | undefined =>
  identity !== undefined && "principal" in identity ? identity.principal : undefined;
