// The port behind which requests are counted, and the rule by which they are: a token bucket of `requests` that fills up within
// `windowSeconds`, kept as one number (the generic cell rate algorithm: ITU-T I.371, appendix I).

export interface RateLimit {
  readonly requests: number;
  readonly windowSeconds: number;
}

export interface RateLimitDecision {
  readonly allowed: boolean;
  /** Requests that would be allowed at once. */
  readonly remaining: number;
  /** Until all of them are. */
  readonly resetSeconds: number;
  /** Until one is; 0 where it was. */
  readonly retryAfterSeconds: number;
}

export interface RateLimiter {
  /** Counts one request of a subject. Never throws. */
  take(subject: string, limit: RateLimit): Promise<RateLimitDecision>;
}

/** What is kept of a bucket: when it will be full. */
export interface BucketState {
  readonly allowed: boolean;
  readonly fullAtMs: number;
}

export const windowMsOf = ({ windowSeconds }: RateLimit): number => windowSeconds * 1000;
/** In which one request comes back. */
export const intervalMsOf = (limit: RateLimit): number => windowMsOf(limit) / limit.requests;
/** Sums of intervals are not whole. */
export const TOLERANCE_MS = 0.01;

/** @param fullAtMs of the bucket; in the past where nothing is known of it */
export function takeToken(fullAtMs: number, limit: RateLimit, nowMs: number): BucketState {
  const filledMs = Math.max(fullAtMs, nowMs);
  const nextMs = filledMs + intervalMsOf(limit);
  const allowed = nextMs - nowMs <= windowMsOf(limit) + TOLERANCE_MS;
  return { allowed, fullAtMs: allowed ? nextMs : filledMs };
}

export function decisionOf(
  { allowed, fullAtMs }: BucketState,
  limit: RateLimit,
  nowMs: number,
): RateLimitDecision {
  const missingMs = Math.max(0, fullAtMs - nowMs);
  const intervalMs = intervalMsOf(limit);
  const waitMs = missingMs + intervalMs - windowMsOf(limit);
  return {
    allowed,
    remaining: Math.max(0, Math.floor((windowMsOf(limit) - missingMs + TOLERANCE_MS) / intervalMs)),
    resetSeconds: Math.ceil((missingMs - TOLERANCE_MS) / 1000),
    retryAfterSeconds: allowed ? 0 : Math.max(1, Math.ceil((waitMs - TOLERANCE_MS) / 1000)),
  };
}
