// Authentication result: the principal of a request, or the reason for its rejection.

import type { EdgeTierError } from "../../core/errors.ts";
import type { Principal } from "./authenticator.ts";

/** An error is thrown only after the request has been counted. */
export type Authentication = { readonly principal: Principal } | { readonly error: EdgeTierError };

export const principalOf = (authentication: Authentication | undefined): Principal | undefined =>
  authentication !== undefined && "principal" in authentication
    ? authentication.principal
    : undefined;
