// Port: counts requests against a rate limit. The limit is a token bucket of `requests` tokens that refills within
// `windowSeconds`. It is stored as one number, by the generic cell rate algorithm (ITU-T I.371, appendix I).

export interface RateLimit {
  readonly requests: number;
  readonly windowSeconds: number;
}

export interface RateLimitDecision {
  readonly allowed: boolean;
  /** Number of requests that are allowed immediately. */
  readonly remaining: number;
  /** Time until the bucket is full. */
  readonly resetSeconds: number;
  /** Time until one request is allowed; 0 if this one was. */
  readonly retryAfterSeconds: number;
}

export interface RateLimiter {
  /** Counts one request of a subject. Never throws. */
  take(subject: string, limit: RateLimit): Promise<RateLimitDecision>;
}

/** Bucket after a request, with the time at which it will be full. */
export interface BucketState {
  readonly allowed: boolean;
  readonly fullAtMs: number;
}

export const windowMsOf = ({ windowSeconds }: RateLimit): number => windowSeconds * 1000;
/** Refill time of one token. */
export const intervalMsOf = (limit: RateLimit): number => windowMsOf(limit) / limit.requests;
/** Absorbs the rounding errors of summed intervals. */
export const TOLERANCE_MS = 0.01;

/** @param fullAtMs when the bucket will be full; a time in the past for an unknown bucket */
export function takeToken(fullAtMs: number, limit: RateLimit, nowMs: number): BucketState {
  const baseMs = Math.max(fullAtMs, nowMs);
  const nextMs = baseMs + intervalMsOf(limit);
  const allowed = nextMs - nowMs <= windowMsOf(limit) + TOLERANCE_MS;
  return { allowed, fullAtMs: allowed ? nextMs : baseMs };
}

export function decisionOf(
  { allowed, fullAtMs }: BucketState,
  limit: RateLimit,
  nowMs: number,
): RateLimitDecision {
  const untilFullMs = Math.max(0, fullAtMs - nowMs);
  const intervalMs = intervalMsOf(limit);
  const waitMs = untilFullMs + intervalMs - windowMsOf(limit);
  return {
    allowed,
    remaining: Math.max(
      0,
      Math.floor((windowMsOf(limit) - untilFullMs + TOLERANCE_MS) / intervalMs),
    ),
    resetSeconds: Math.ceil((untilFullMs - TOLERANCE_MS) / 1000),
    retryAfterSeconds: allowed ? 0 : Math.max(1, Math.ceil((waitMs - TOLERANCE_MS) / 1000)),
  };
}
