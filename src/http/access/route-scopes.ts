// Route scopes: maps a path to the scope it requires. Unlisted paths require one too, so that a forgotten route is closed.

import type { Scope } from "./authenticator.ts";

/** Load balancers call health without a credential, and the API description is not secret. */
const PUBLIC_PATHS = /^\/$|^\/(docs|openapi\.json)$|^\/v2\/health\/(live|ready)$/;
const PREDICT_PATHS =
  /^\/v1\/embeddings$|^\/v1\/models\/[^/]+\/predict$|^\/v2\/models\/[^/]+(\/versions\/[^/]+)?\/infer$/;
const METADATA_PATHS = /^\/v1\/(models|regions)(\/|$)|^\/v2(\/|$)/;
const ADMIN_PATHS = /^\/(v1\/)?admin(\/|$)/;

export interface ScopeRequirement {
  /** Undefined for a public path. */
  readonly scope: Scope | undefined;
  /** Whether the path matches a listed pattern. */
  readonly isKnownPath: boolean;
}

/**
 * @param path the path that the router matches
 * @param metricsScope scope of GET /metrics, which a deployment may close to ordinary clients
 */
export function scopeRequirementOf(path: string, metricsScope: Scope = "admin"): ScopeRequirement {
  if (path === "/metrics") return { scope: metricsScope, isKnownPath: true };
  if (PUBLIC_PATHS.test(path)) return { scope: undefined, isKnownPath: true };
  if (ADMIN_PATHS.test(path)) return { scope: "admin", isKnownPath: true };
  if (PREDICT_PATHS.test(path)) return { scope: "predict", isKnownPath: true };
  return { scope: "metadata", isKnownPath: METADATA_PATHS.test(path) };
}
