// Request context: creates the RequestContext of each request and sets `server-timing` on its response.

import type { MiddlewareHandler } from "hono";
import * as z from "zod";
import type { Clock } from "../../core/clock.ts";
import type { GeoPoint } from "../../core/geo.ts";
import { startPhaseTimer } from "../../telemetry/phase-timer.ts";
import { createTracedPhaseTimer } from "../../telemetry/traced-phase-timer.ts";
import type { AppEnv } from "../app-env.ts";

export function attachRequestContext(clock: Clock): MiddlewareHandler<AppEnv> {
  return async function attachContext(c, next) {
    const arrivedAtMs = clock.now();
    const phases = startPhaseTimer(clock, arrivedAtMs);
    const span = c.get("span");
    c.set("context", {
      requestId: c.get("requestId"),
      span,
      // A getter, because the tenant is known only after authentication.
      get tenant() {
        return c.get("tenant") ?? "";
      },
      // A getter, because only calls to regions need the location.
      get geo() {
        return readGeo(c.req.raw);
      },
      disconnectSignal: c.req.raw.signal,
      arrivedAtMs,
      phases: span.isRecording ? createTracedPhaseTimer(phases, span, clock) : phases,
      waitUntil: waitUntilOf(c),
    });
    await next();
    const timing = phases.serverTiming();
    if (timing !== "") c.header("server-timing", timing);
  };
}

/** Cloudflare sets the client's coordinates as text in the request's `cf`; other platforms set none. */
const cfGeoSchema = z.object({
  cf: z.object({ latitude: degreesSchema(90), longitude: degreesSchema(180) }),
});

function degreesSchema(maxDegrees: number) {
  return z.coerce.number().min(-maxDegrees).max(maxDegrees);
}

function readGeo(request: Request): GeoPoint | undefined {
  const parsed = cfGeoSchema.safeParse(request);
  return parsed.success
    ? { latitudeDegrees: parsed.data.cf.latitude, longitudeDegrees: parsed.data.cf.longitude }
    : undefined;
}

/** Outside Workers (`app.request` in tests, Node) there is no execution context, and pending work needs none. */
function waitUntilOf(
  c: Parameters<MiddlewareHandler<AppEnv>>[0],
): (work: Promise<unknown>) => void {
  try {
    const { executionCtx } = c;
    return (work) => executionCtx.waitUntil(work);
  } catch {
    return (work) => void work.catch(() => {});
  }
}
