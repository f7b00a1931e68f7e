// Which scope a request needs, by its path. What is not named here needs one, too: a route that is forgotten is closed.

import type { Scope } from "./authenticator.ts";

/** Health is asked by load balancers, and the description of the API is no secret. */
const PUBLIC_PATHS = /^\/$|^\/(docs|openapi\.json)$|^\/v2\/health\/(live|ready)$/;
const PREDICT_PATHS =
  /^\/v1\/embeddings$|^\/v1\/models\/[^/]+\/predict$|^\/v2\/models\/[^/]+(\/versions\/[^/]+)?\/infer$/;
const METADATA_PATHS = /^\/v1\/(models|regions)(\/|$)|^\/v2(\/|$)/;
const ADMIN_PATHS = /^\/(v1\/)?admin(\/|$)/;

export interface ScopeRequirement {
  /** Undefined where nobody is asked who they are. */
  readonly scope: Scope | undefined;
  /** Whether the path is one that this edge knows of. */
  readonly isKnownPath: boolean;
}

/** @param path as the router matches it @param metricsScope of GET /metrics: who asks the least may not need to know how much is asked */
export function scopeRequirementOf(path: string, metricsScope: Scope = "admin"): ScopeRequirement {
  if (path === "/metrics") return { scope: metricsScope, isKnownPath: true };
  if (PUBLIC_PATHS.test(path)) return { scope: undefined, isKnownPath: true };
  if (ADMIN_PATHS.test(path)) return { scope: "admin", isKnownPath: true };
  if (PREDICT_PATHS.test(path)) return { scope: "predict", isKnownPath: true };
  return { scope: "metadata", isKnownPath: METADATA_PATHS.test(path) };
}
