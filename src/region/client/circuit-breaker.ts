// Circuit breaker for one region. cockatiel (4.0) does not fit. It reads Date.now itself, and its callers await the promise
// of the probing call, which hangs in workerd.
//
// A closed circuit opens after consecutive failures, or after a share of failures in a window. An open one rejects all calls.
// A half-open one admits one probe at a time and closes or opens by its outcome. If the platform ends a probe's request
// silently, another probe may start after the timeout. An outcome counts only for the state in which its call started.

import type { Clock } from "../../core/clock.ts";

type State =
  | { readonly kind: "closed"; outcomes: readonly Outcome[] }
  | { readonly kind: "open"; readonly openForMs: number; readonly untilMs: number }
  | { readonly kind: "half_open"; readonly openForMs: number; probe: Probe | undefined };
type Outcome = { readonly atMs: number; readonly failed: boolean };
type Probe = { readonly endsAtMs: number };

export type CircuitState = State["kind"];

/** Reports one call's outcome. Only the first report counts; `cancel` reports nothing about the region. */
export interface CircuitPermit {
  readonly recordSuccess: () => void;
  readonly recordFailure: () => void;
  readonly cancel: () => void;
}

export interface CircuitBreaker {
  readonly state: CircuitState;
  /** Failures in a row within the window; 0 unless the circuit is closed. */
  readonly consecutiveFailures: number;
  /** Remaining time of an open circuit. */
  readonly remainingOpenMs: number;
  /** Whether `tryAcquire` would return a permit. */
  readonly allowsCalls: boolean;
  /** @param timeoutMs after which the call has ended in any case @returns undefined if the circuit blocks the call */
  tryAcquire(timeoutMs: number): CircuitPermit | undefined;
  /** Makes an open circuit half open, because the region is known to be available again. */
  halfOpen(): void;
}

export interface CircuitBreakerOptions {
  readonly clock: Clock;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  readonly onStateChange?: (to: CircuitState) => void;
}

const MAX_CONSECUTIVE_FAILURES = 5;
const WINDOW_CALLS = 40;
const WINDOW_MS = 30_000;
/** Number of calls in the window from which the failed share counts. */
const MIN_CALLS = 20;
const MAX_FAILED_SHARE = 0.5;
const FIRST_OPEN_MS = 1_000;
const MAX_OPEN_MS = 30_000;
/** Spread of the open time (±25 %), so that isolates that opened together do not probe together. */
const JITTER = 0.5;
const PROBE_GRACE_MS = 1_000;

type ClosedState = State & { readonly kind: "closed" };
type HalfOpenState = State & { readonly kind: "half_open" };

export function createCircuitBreaker(options: CircuitBreakerOptions): CircuitBreaker {
  const { clock } = options;
  const circuit = createCircuit(options);

  function acquireClosed(started: ClosedState): CircuitPermit {
    let isSettled = false;
    const settle = (failed: boolean) => () => {
      if (!isSettled && circuit.last() === started) circuit.recordOutcome(started, failed);
      isSettled = true;
    };
    return {
      recordSuccess: settle(false),
      recordFailure: settle(true),
      cancel: () => (isSettled = true),
    };
  }

  function acquireProbe(started: HalfOpenState, timeoutMs: number): CircuitPermit {
    const probe: Probe = { endsAtMs: clock.now() + timeoutMs + PROBE_GRACE_MS };
    started.probe = probe;
    const settle = (transition: () => void) => () => {
      if (circuit.last() === started && started.probe === probe) transition();
    };
    return {
      recordSuccess: settle(circuit.close),
      recordFailure: settle(() => circuit.open(Math.min(MAX_OPEN_MS, started.openForMs * 2))),
      cancel: settle(() => (started.probe = undefined)),
    };
  }

  return {
    get state() {
      return circuit.current().kind;
    },
    get consecutiveFailures() {
      const state = circuit.last();
      return state.kind === "closed"
        ? countConsecutiveFailures(recentOutcomes(state.outcomes, clock.now()))
        : 0;
    },
    get remainingOpenMs() {
      const state = circuit.current();
      return state.kind === "open" ? state.untilMs - clock.now() : 0;
    },
    get allowsCalls() {
      const state = circuit.current();
      return (
        state.kind === "closed" || (state.kind === "half_open" && isProbeFree(state, clock.now()))
      );
    },
    tryAcquire(timeoutMs) {
      const state = circuit.current();
      if (state.kind === "closed") return acquireClosed(state);
      if (state.kind === "open" || !isProbeFree(state, clock.now())) return undefined;
      return acquireProbe(state, timeoutMs);
    },
    halfOpen: circuit.halfOpen,
  };
}

/** Holds the state and changes it. */
function createCircuit({ clock, random, onStateChange = () => {} }: CircuitBreakerOptions) {
  let state: State = createClosedState();

  function changeTo(next: State): void {
    state = next;
    onStateChange(next.kind);
  }

  function open(openForMs: number): void {
    const jitter = 1 + JITTER * (random() - 0.5);
    changeTo({ kind: "open", openForMs, untilMs: clock.now() + openForMs * jitter });
  }

  function halfOpen(): void {
    if (state.kind === "open")
      changeTo({ kind: "half_open", openForMs: state.openForMs, probe: undefined });
  }

  return {
    /** Returns the state without the effect of elapsed time. */
    last: (): State => state,
    /** Returns the state now: an open circuit becomes half open as time passes. */
    current(): State {
      if (state.kind === "open" && clock.now() >= state.untilMs) halfOpen();
      return state;
    },
    close: () => changeTo(createClosedState()),
    open,
    recordOutcome(started: ClosedState, failed: boolean): void {
      const nowMs = clock.now();
      const recent = recentOutcomes(started.outcomes, nowMs);
      started.outcomes = [...recent, { atMs: nowMs, failed }].slice(-WINDOW_CALLS);
      if (failed && shouldOpen(started.outcomes)) open(FIRST_OPEN_MS);
    },
    halfOpen,
  };
}

const createClosedState = (): ClosedState => ({ kind: "closed", outcomes: [] });
const recentOutcomes = (outcomes: readonly Outcome[], nowMs: number): readonly Outcome[] =>
  outcomes.filter(({ atMs }) => atMs > nowMs - WINDOW_MS);
const isProbeFree = ({ probe }: HalfOpenState, nowMs: number): boolean =>
  probe === undefined || nowMs >= probe.endsAtMs;
const countConsecutiveFailures = (outcomes: readonly Outcome[]): number =>
  outcomes.length - 1 - outcomes.findLastIndex(({ failed }) => !failed);

function shouldOpen(outcomes: readonly Outcome[]): boolean {
  const failures = outcomes.filter(({ failed }) => failed).length;
  const isMostlyFailing =
    outcomes.length >= MIN_CALLS && failures >= MAX_FAILED_SHARE * outcomes.length;
  return isMostlyFailing || countConsecutiveFailures(outcomes) >= MAX_CONSECUTIVE_FAILURES;
}
