// Method check: answers 405 with `allow` on every known path, derived from the registered routes.

import type { Hono } from "hono";
import { protocolErrors } from "../protocol/errors.ts";
import type { AppEnv } from "./app-env.ts";

/** Hono's name for a route of any method. */
const ANY_METHOD = "ALL";

/**
 * Adds a fallback for other methods to each path that has routes. Call it after all routes are registered.
 *
 * The fallback runs after the same middleware as the routes of its path. A client without a valid credential or the path's
 * scope therefore gets 401 or 403, as with an allowed method. The response does not depend on the model in the path. It
 * reveals neither whether the model exists nor whether the credential allows it.
 */
export function rejectOtherMethods(app: Hono<AppEnv>): void {
  const methodsByPath = new Map<string, Set<string>>();
  for (const { method, path } of app.routes) {
    if (method === ANY_METHOD) continue; // middleware, and paths that reject every method
    methodsByPath.set(path, (methodsByPath.get(path) ?? new Set()).add(method));
  }
  for (const [path, methods] of methodsByPath) {
    const allowed = [...methods];
    app.all(path, (c) => {
      c.header("allow", allowed.join(", "));
      throw protocolErrors.methodNotAllowed(c.req.method, allowed);
    });
  }
}
