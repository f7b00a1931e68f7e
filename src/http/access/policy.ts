// Which scope a request needs, by its path. What is not named here needs one, too: a route that is forgotten is closed.

import type { Scope } from "./authenticator.ts";

/** Health is asked by load balancers, and the description of the API is no secret. */
const OPEN = /^\/$|^\/(docs|openapi\.json)$|^\/v2\/health\/(live|ready)$/;
const PREDICT =
  /^\/v1\/embeddings$|^\/v1\/models\/[^/]+\/predict$|^\/v2\/models\/[^/]+(\/versions\/[^/]+)?\/infer$/;
const METADATA = /^\/v1\/(models|regions)(\/|$)|^\/v2(\/|$)/;
const ADMIN = /^\/(v1\/)?admin(\/|$)/;

export interface Need {
  /** Undefined where nobody is asked who they are. */
  readonly scope: Scope | undefined;
  /** Whether the path is one that this edge knows of. */
  readonly isKnown: boolean;
}

/** @param path as the router matches it @param metricsScope of GET /metrics: who asks the least may not need to know how much is asked */
export function needOf(path: string, metricsScope: Scope = "admin"): Need {
  if (path === "/metrics") return { scope: metricsScope, isKnown: true };
  if (OPEN.test(path)) return { scope: undefined, isKnown: true };
  if (ADMIN.test(path)) return { scope: "admin", isKnown: true };
  if (PREDICT.test(path)) return { scope: "predict", isKnown: true };
  return { scope: "metadata", isKnown: METADATA.test(path) };
}
