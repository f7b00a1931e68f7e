// Request metrics: counts each request when its response starts, and schedules the report. A client that disconnects earlier
// is not counted. In that case the platform drops pending awaits, and signals nothing unless other work keeps the request
// alive (measured).

import type { MiddlewareHandler } from "hono";
import type { Clock } from "../../core/clock.ts";
import { EMBEDDINGS_PATH } from "../../protocol/embeddings.ts";
import type { Telemetry } from "../../telemetry/telemetry.ts";
import type { AppEnv } from "../app-env.ts";

/** @param clock the clock of the request context */
export function requestMetrics(
  { metrics, reporter }: Telemetry,
  clock: Clock,
): MiddlewareHandler<AppEnv> {
  return async function countRequest(c, next) {
    await next();
    const { model = "", arrivedAtMs, phases, waitUntil } = c.get("context");
    const route = routeLabelOf(c.req.path);
    metrics.count("edgetier_requests_total", { route, model, status: String(c.res.status) });
    metrics.observe(
      "edgetier_request_duration_seconds",
      { route, model },
      (clock.now() - arrivedAtMs) / 1_000,
    );
    for (const [phase, durationMs] of phases.durations())
      metrics.observe("edgetier_phase_duration_seconds", { phase }, durationMs / 1_000);
    reporter.schedule(waitUntil);
  };
}

function routeLabelOf(path: string): string {
  if (path.startsWith("/v1/models")) return path.endsWith("/predict") ? "predict" : "models";
  if (path === EMBEDDINGS_PATH) return "embeddings";
  if (path.startsWith("/v2/health/")) return "health";
  if (path.startsWith("/v2/models/")) return path.endsWith("/infer") ? "infer" : "models";
  if (path.startsWith("/v1/regions")) return "regions";
  return path === "/metrics" ? "metrics" : "other";
}
