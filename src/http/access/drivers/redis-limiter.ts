// Counts requests of all isolates in Upstash Redis: one script, so that reading and writing a bucket is one step there. What this isolate
// alone has seen too often is refused without asking, and so is what Redis has refused, until its time. Without Redis each isolate
// counts for itself: a limit protects from load, and an outage of the counter must not become one of the service.

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
  /** For one round trip; then the request goes on, by this isolate's count. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** After a failure Redis is not asked for so long. */
  readonly cooldownMs?: number;
  readonly onFailure?: (error: unknown) => void;
}

const KEY_PREFIX = "edgetier:limit:";

/** `takeToken` of rate-limiter.ts. A bucket that is full again is the same as none. */
const TAKE_TOKEN_SCRIPT = `
local now, interval, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
if full + interval - now > window then return {0, string.format('%.3f', full)} end
full = full + interval
redis.call('SET', KEYS[1], string.format('%.3f', full), 'PX', math.ceil(full - now))
return {1, string.format('%.3f', full)}`;

const replySchema = z.tuple([z.coerce.number(), z.coerce.number()]);

export function createRedisRateLimiter(options: RedisRateLimiterOptions): RateLimiter {
  const { clock, cooldownMs: pauseMs = 1_000 } = options;
  const redis = new Redis({
    url: options.url,
    token: options.token,
    retry: { retries: 0 },
    signal: () => AbortSignal.timeout(options.timeoutMs),
    responseEncoding: false,
    enableTelemetry: false,
  });
  const here = createIsolateRateLimiter(clock);
  let resumesAtMs = 0;

  async function ask(subject: string, limit: RateLimit, nowMs: number) {
    const times = [nowMs, intervalMsOf(limit), windowMsOf(limit) + TOLERANCE_MS].map(String);
    const [allowed, fullAtMs] = replySchema.parse(
      await redis.eval(TAKE_TOKEN_SCRIPT, [KEY_PREFIX + subject], times),
    );
    return { allowed: allowed === 1, fullAtMs };
  }

  return {
    async take(subject, limit) {
      const nowMs = clock.now();
      const decision = here.takeSync(subject, limit);
      if (!decision.allowed || nowMs < resumesAtMs) return decision;
      try {
        const bucket = await ask(subject, limit, nowMs);
        here.mergeBucket(subject, bucket.fullAtMs);
        return decisionOf(bucket, limit, nowMs);
      } catch (error) {
        resumesAtMs = nowMs + pauseMs;
        options.onFailure?.(error);
        return decision;
      }
    },
  };
}
