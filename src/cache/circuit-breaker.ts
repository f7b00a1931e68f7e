// Circuit breaker (Nygard, Release It!, 2007) for a cache: after one failure it blocks calls, longer each time.
//
// Background calls probe first; calls that a client awaits probe only if no background call came. One call probes at a
// time. If the platform ends a probe's request silently, another call may probe after `probeMs`. State is per isolate.

import type { Clock } from "../core/clock.ts";

export type CacheBreakerState =
  | { readonly kind: "closed" }
  | { readonly kind: "open"; readonly openMs: number; readonly untilMs: number }
  | { readonly kind: "half-open"; readonly openMs: number; readonly probeUntilMs: number };

export interface CacheCircuitBreakerOptions {
  readonly clock: Clock;
  /** Open time after the first failure. Each failed probe doubles it. */
  readonly minOpenMs?: number;
  readonly maxOpenMs?: number;
  /** How long a probe without a result blocks other calls. */
  readonly probeMs?: number;
}

export interface CacheCircuitBreaker {
  readonly state: CacheBreakerState;
  /**
   * Returns whether the call may proceed. Its caller must then record success or failure.
   * @param isAwaited whether a client waits for the call
   */
  tryAcquire(isAwaited: boolean): boolean;
  recordSuccess(): void;
  recordFailure(): void;
}

export function createCacheCircuitBreaker({
  clock,
  minOpenMs = 1_000,
  maxOpenMs = 30_000,
  probeMs = 5_000,
}: CacheCircuitBreakerOptions): CacheCircuitBreaker {
  let state: CacheBreakerState = { kind: "closed" };

  /** Returns the earliest time at which a call may proceed. */
  function probeFromMs(isAwaited: boolean): number {
    if (state.kind === "closed") return Number.NEGATIVE_INFINITY;
    if (state.kind === "half-open") return state.probeUntilMs;
    return state.untilMs + (isAwaited ? state.openMs : 0);
  }

  return {
    get state() {
      return state;
    },
    tryAcquire(isAwaited) {
      if (clock.now() < probeFromMs(isAwaited)) return false;
      if (state.kind !== "closed")
        state = { kind: "half-open", openMs: state.openMs, probeUntilMs: clock.now() + probeMs };
      return true;
    },
    recordSuccess() {
      // A call that started before the failure must not close an open breaker.
      if (state.kind === "half-open") state = { kind: "closed" };
    },
    recordFailure() {
      if (state.kind === "open") return; // the call was in flight when the breaker opened
      const openMs = state.kind === "closed" ? minOpenMs : Math.min(2 * state.openMs, maxOpenMs);
      state = { kind: "open", openMs, untilMs: clock.now() + openMs };
    },
  };
}
