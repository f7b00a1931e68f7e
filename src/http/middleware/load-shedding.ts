// Load shedding: an inference request acquires a permit before its body is read, and is rejected immediately if none is free.
// Accepted requests then finish in time and fit into the isolate's memory. A response forwarded from a region may still stream
// after its permit is released, because the isolate does not buffer it.

import type { MiddlewareHandler } from "hono";
import type { Clock } from "../../core/clock.ts";
import { EMBEDDINGS_PATH } from "../../protocol/embeddings.ts";
import type { AppEnv } from "../app-env.ts";
import { httpErrors } from "../errors.ts";

export interface LoadSheddingOptions {
  /** Maximum number of concurrent inference requests in this isolate. */
  readonly maxInFlight: number;
  readonly clock: Clock;
}

/** Routes that run models. Metadata and health are never shed. */
export const INFERENCE_PATHS = [
  "/v1/models/:model/predict",
  EMBEDDINGS_PATH,
  "/v2/models/:model/infer",
  "/v2/models/:model/versions/:version/infer",
];

/** Age at which a permit expires. It exceeds the platform's request limit, because the platform may end a request silently. */
const PERMIT_TTL_MS = 60_000;
const RETRY_AFTER_SECONDS = 1;

export function loadShedding({
  maxInFlight,
  clock,
}: LoadSheddingOptions): MiddlewareHandler<AppEnv> {
  /** Acquisition time of each permit, oldest first. */
  const acquiredAtMs = new Map<symbol, number>();

  function dropExpired(): void {
    const beforeMs = clock.now() - PERMIT_TTL_MS;
    for (const [permit, acquiredMs] of acquiredAtMs) {
      if (acquiredMs > beforeMs) return;
      acquiredAtMs.delete(permit);
    }
  }

  return async function takePermit(c, next) {
    if (acquiredAtMs.size >= maxInFlight) dropExpired();
    // OpenAI's clients back off and retry after a 429.
    if (acquiredAtMs.size >= maxInFlight)
      throw httpErrors.overloaded(
        maxInFlight,
        c.req.path === EMBEDDINGS_PATH ? 429 : 503,
        RETRY_AFTER_SECONDS,
      );
    const permit = Symbol("permit");
    const release = () => acquiredAtMs.delete(permit);
    acquiredAtMs.set(permit, clock.now());
    // On a disconnect the platform drops pending awaits without running `finally`, so this listener releases the permit.
    c.req.raw.signal.addEventListener("abort", release);
    try {
      await next();
    } finally {
      release();
    }
  };
}
