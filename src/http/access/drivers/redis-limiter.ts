// Redis rate limiter: counts the requests of all isolates in Upstash Redis. One script reads and writes a bucket atomically.
// The isolate rejects a subject without a round trip if its own count, or an earlier reply of Redis, exceeds the limit.
// If Redis fails, each isolate counts locally, so that an outage of the counter does not become an outage of the service.

import { Redis } from "@upstash/redis";
import * as z from "zod";
import type { Clock } from "../../../core/clock.ts";
import {
  decisionOf,
  intervalMsOf,
  type RateLimit,
  type RateLimiter,
  TOLERANCE_MS,
  windowMsOf,
} from "../rate-limiter.ts";
import { createIsolateRateLimiter } from "./isolate-limiter.ts";

export interface RedisRateLimiterOptions {
  readonly url: string;
  readonly token: string;
  /** Timeout of one round trip; after it, the isolate's own count decides. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** Pause of calls to Redis after a failure. */
  readonly cooldownMs?: number;
  readonly onFailure?: (error: unknown) => void;
}

const KEY_PREFIX = "edgetier:limit:";

/** Port of `takeToken` in rate-limiter.ts to Lua. A full bucket expires, because it equals an unknown one. */
const TAKE_TOKEN_SCRIPT = `
local now, interval, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
if full + interval - now > window then return {0, string.format('%.3f', full)} end
full = full + interval
redis.call('SET', KEYS[1], string.format('%.3f', full), 'PX', math.ceil(full - now))
return {1, string.format('%.3f', full)}`;

const replySchema = z.tuple([z.coerce.number(), z.coerce.number()]);

export function createRedisRateLimiter(options: RedisRateLimiterOptions): RateLimiter {
  const { clock, cooldownMs = 1_000 } = options;
  const redis = new Redis({
    url: options.url,
    token: options.token,
    retry: { retries: 0 },
    signal: () => AbortSignal.timeout(options.timeoutMs),
    responseEncoding: false,
    enableTelemetry: false,
  });
  const local = createIsolateRateLimiter(clock);
  let resumesAtMs = 0;

  async function takeShared(subject: string, limit: RateLimit, nowMs: number) {
    const times = [nowMs, intervalMsOf(limit), windowMsOf(limit) + TOLERANCE_MS].map(String);
    const [allowed, fullAtMs] = replySchema.parse(
      await redis.eval(TAKE_TOKEN_SCRIPT, [KEY_PREFIX + subject], times),
    );
    return { allowed: allowed === 1, fullAtMs };
  }

  return {
    async take(subject, limit) {
      const nowMs = clock.now();
      const decision = local.takeSync(subject, limit);
      if (!decision.allowed || nowMs < resumesAtMs) return decision;
      try {
        const bucket = await takeShared(subject, limit, nowMs);
        local.mergeBucket(subject, bucket.fullAtMs);
        return decisionOf(bucket, limit, nowMs);
      } catch (error) {
        resumesAtMs = nowMs + cooldownMs;
        options.onFailure?.(error);
        return decision;
      }
    },
  };
}
