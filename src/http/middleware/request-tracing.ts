// Request tracing: reports the trace of each finished request and, if enabled, its access record. Both name the route instead
// of the path, because clients choose the path.

import type { Context, MiddlewareHandler } from "hono";
import { matchedRoutes } from "hono/route";
import type { Clock } from "../../core/clock.ts";
import { asEdgeTierError } from "../../core/errors.ts";
import type { Tracer } from "../../core/tracing.ts";
import { scopeRequirementOf } from "../access/route-scopes.ts";
import type { AppEnv } from "../app-env.ts";

export interface RequestTracingOptions {
  readonly tracer: Tracer;
  readonly clock: Clock;
  /** Receives access records; undefined turns them off. */
  readonly log?: ((record: Readonly<Record<string, unknown>>) => void) | undefined;
}

const METHODS = new Set(["GET", "HEAD", "POST", "QUERY", "OPTIONS", "PUT", "PATCH", "DELETE"]);

export function requestTracing({
  tracer,
  clock,
  log,
}: RequestTracingOptions): MiddlewareHandler<AppEnv> {
  return async function traceRequest(c, next) {
    const trace = tracer.startRequest((name) => c.req.header(name));
    const startedAtMs = clock.now();
    c.set("span", trace.span);
    await next();
    const { scope } = scopeRequirementOf(c.req.path);
    const { waitUntil } = c.get("context");
    const isTraced = trace.span.isRecording && (scope === "predict" || scope === "metadata");
    if (!isTraced && log === undefined) return;

    const requestId = c.get("requestId");
    const method = METHODS.has(c.req.method) ? c.req.method : "_OTHER";
    const route = matchedRoutes(c).findLast(({ path }) => !path.includes("*"))?.path ?? "";
    const { status } = c.res;
    const error = c.error && asEdgeTierError(c.error).code;
    log?.({
      level: "info",
      event: "request",
      requestId,
      traceId: trace.span.traceId,
      method,
      route,
      status,
      durationMs: clock.now() - startedAtMs,
      ...servedByAttributes(c),
      ...(error && { code: error }),
    });
    const attributes = {
      "http.request.method": method,
      "http.route": route,
      "http.response.status_code": status,
      "edgetier.request_id": requestId,
      ...servedByAttributes(c, "edgetier."),
    };
    trace.finish(
      waitUntil,
      isTraced
        ? {
            name: `${method} ${route}`,
            attributes: { ...attributes, ...(error && { "error.type": error }) },
            error: status >= 500 ? (error ?? String(status)) : undefined,
          }
        : undefined,
    );
  };
}

/** Tiers and cache layer that served the request. */
function servedByAttributes(c: Context, prefix = ""): Readonly<Record<string, string>> {
  const pairs = ["tier", "cache"].map(
    (name) => [`${prefix}${name}`, c.res.headers.get(`x-edgetier-${name}`)] as const,
  );
  return Object.fromEntries(pairs.filter((pair): pair is [string, string] => pair[1] !== null));
}
