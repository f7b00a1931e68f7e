// Load shedding: a request that computes takes a permit before its body is read, and is refused at once where there is none, so
// that those that were taken are answered in time, within an isolate's memory. An answer that is passed on from the region goes
// on streaming when its permit is back: it is not held here.

import { httpErrors } from "../errors.ts";
import type { MiddlewareHandler } from "hono";
import type { Clock } from "../../core/clock.ts";
import { EMBEDDINGS_PATH } from "../../protocol/embeddings.ts";
import type { AppEnv } from "../app-env.ts";

export interface LoadSheddingOptions {
  /** Requests of this isolate that compute at the same time. */
  readonly maxInFlight: number;
  readonly clock: Clock;
}

/** Routes that compute. Metadata and health are answered always. */
export const INFERENCE_PATHS = [
  "/v1/models/:model/predict",
  EMBEDDINGS_PATH,
  "/v2/models/:model/infer",
  "/v2/models/:model/versions/:version/infer",
];

/** Beyond what the platform lets a request take, should it end one without a word: so old a permit is free again. */
const PERMIT_TTL_MS = 60_000;
const RETRY_AFTER_SECONDS = 1;

export function loadShedding({
  maxInFlight,
  clock,
}: LoadSheddingOptions): MiddlewareHandler<AppEnv> {
  /** When each permit was taken, the oldest first. */
  const taken = new Map<symbol, number>();

  function forgetOld(): void {
    const beforeMs = clock.now() - PERMIT_TTL_MS;
    for (const [permit, takenAtMs] of taken) {
      if (takenAtMs > beforeMs) return;
      taken.delete(permit);
    }
  }

  return async function takePermit(c, next) {
    if (taken.size >= maxInFlight) forgetOld();
    // OpenAI's clients wait and ask again after a 429.
    if (taken.size >= maxInFlight)
      throw httpErrors.overloaded(
        maxInFlight,
        c.req.path === EMBEDDINGS_PATH ? 429 : 503,
        RETRY_AFTER_SECONDS,
      );
    const permit = Symbol("permit");
    const giveBack = () => taken.delete(permit);
    taken.set(permit, clock.now());
    // The platform drops what a request still awaits when its client leaves, and no `finally` runs; this does.
    c.req.raw.signal.addEventListener("abort", giveBack);
    try {
      await next();
    } finally {
      giveBack();
    }
  };
}
