// A circuit breaker (Nygard, Release It!, 2007) for a cache: after one failure nothing is asked for a while, each time for longer.
//
// Calls that nobody waits for probe first; those that somebody waits for only if none came. One call probes at a time, and one
// whose request the platform ended without a word makes way for another after `probeMs`. Its state is this isolate's.

import type { Clock } from "../core/clock.ts";

export type CacheBreakerState =
  | { readonly kind: "closed" }
  | { readonly kind: "open"; readonly openMs: number; readonly untilMs: number }
  | { readonly kind: "half-open"; readonly openMs: number; readonly probeUntilMs: number };

export interface CacheCircuitBreakerOptions {
  readonly clock: Clock;
  /** How long nothing is asked after the first failure; twice as long after each probe that fails. */
  readonly minOpenMs?: number;
  readonly maxOpenMs?: number;
  /** For how long a probe keeps others away. */
  readonly probeMs?: number;
}

export interface CacheCircuitBreaker {
  readonly state: CacheBreakerState;
  /** Whether this call may be made; it then ends with `succeeded` or `failed`. @param isAwaited whether a client waits for it */
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

  /** From when on a call may probe. */
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
      if (state.kind === "half-open") state = { kind: "closed" }; // an open one is not closed by a call from before
    },
    recordFailure() {
      if (state.kind === "open") return; // one that had been under way
      const openMs = state.kind === "closed" ? minOpenMs : Math.min(2 * state.openMs, maxOpenMs);
      state = { kind: "open", openMs, untilMs: clock.now() + openMs };
    },
  };
}
