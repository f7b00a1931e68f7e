// A circuit breaker (Nygard, Release It!, 2007) for a cache: after one failure nothing is asked for a while, each time for longer.
//
// Calls that nobody waits for probe first; those that somebody waits for only if none came. One call probes at a time, and one
// whose request the platform ended without a word makes way for another after `probeMs`. Its state is this isolate's.

import type { Clock } from "../core/clock.ts";

export type BreakerState =
  | { readonly is: "closed" }
  | { readonly is: "open"; readonly openMs: number; readonly untilMs: number }
  | { readonly is: "half-open"; readonly openMs: number; readonly probeUntilMs: number };

export interface CircuitBreakerOptions {
  readonly clock: Clock;
  /** How long nothing is asked after the first failure; twice as long after each probe that fails. */
  readonly minOpenMs?: number;
  readonly maxOpenMs?: number;
  /** For how long a probe keeps others away. */
  readonly probeMs?: number;
}

export interface CircuitBreaker {
  readonly state: BreakerState;
  /** Whether this call may be made; it then ends with `succeeded` or `failed`. @param isAwaited whether a client waits for it */
  enter(isAwaited: boolean): boolean;
  succeeded(): void;
  failed(): void;
}

export function createCircuitBreaker({
  clock,
  minOpenMs = 1_000,
  maxOpenMs = 30_000,
  probeMs = 5_000,
}: CircuitBreakerOptions): CircuitBreaker {
  let state: BreakerState = { is: "closed" };

  /** From when on a call may probe. */
  function probeFromMs(isAwaited: boolean): number {
    if (state.is === "closed") return Number.NEGATIVE_INFINITY;
    if (state.is === "half-open") return state.probeUntilMs;
    return state.untilMs + (isAwaited ? state.openMs : 0);
  }

  return {
    get state() {
      return state;
    },
    enter(isAwaited) {
      if (clock.now() < probeFromMs(isAwaited)) return false;
      if (state.is !== "closed")
        state = { is: "half-open", openMs: state.openMs, probeUntilMs: clock.now() + probeMs };
      return true;
    },
    succeeded() {
      if (state.is === "half-open") state = { is: "closed" }; // an open one is not closed by a call from before
    },
    failed() {
      if (state.is === "open") return; // one that had been under way
      const openMs = state.is === "closed" ? minOpenMs : Math.min(2 * state.openMs, maxOpenMs);
      state = { is: "open", openMs, untilMs: clock.now() + openMs };
    },
  };
}
