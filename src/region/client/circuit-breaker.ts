// A circuit breaker. Our own: cockatiel's (4.0) reads Date.now itself, and has further callers wait for the promise of the one
// that probes, which hangs in workerd.
//
// Closed, it opens after failures in a row or a share of failures in a window; open, it refuses all; half open, it lets one
// call through at a time and closes or opens again by its outcome. A probe that the platform ended with its request tells
// nobody: its place is free again after its time. A call counts only for the state that it began in.

import type { Clock } from "../../core/clock.ts";

type State =
  | { readonly kind: "closed"; outcomes: readonly Outcome[] }
  | { readonly kind: "open"; readonly openForMs: number; readonly untilMs: number }
  | { readonly kind: "half_open"; readonly openForMs: number; probe: Probe | undefined };
type Outcome = { readonly atMs: number; readonly failed: boolean };
type Probe = { readonly endsAtMs: number };

export type CircuitState = State["kind"];

/** One call's word on how it went; of several the first counts. `cancelled` says nothing of the other side. */
export interface CircuitPermit {
  readonly succeed: () => void;
  readonly fail: () => void;
  readonly cancel: () => void;
}

export interface CircuitBreaker {
  readonly state: CircuitState;
  /** While closed, up to now; failures of long ago are forgotten. */
  readonly consecutiveFailures: number;
  /** How long it stays open yet. */
  readonly remainingOpenMs: number;
  /** Whether `begin` gives a call. */
  readonly allowsCalls: boolean;
  /** @param timeoutMs after which the call is over in any case */
  tryAcquire(timeoutMs: number): CircuitPermit | undefined;
  /** The other side is known to be back: an open circuit is half open from now on. */
  halfOpen(): void;
}

export interface CircuitBreakerOptions {
  readonly clock: Clock;
  /** From 0 to 1. */
  readonly random: () => number;
  readonly onStateChange?: (to: CircuitState) => void;
}

const MAX_CONSECUTIVE_FAILURES = 5;
const WINDOW_CALLS = 40;
const WINDOW_MS = 30_000;
/** Of the window, from which on so many failures open it. */
const MIN_CALLS = 20;
const MAX_FAILED_SHARE = 0.5;
const FIRST_OPEN_MS = 1_000;
const MAX_OPEN_MS = 30_000;
/** So that isolates which opened together do not probe together: from 25 % less to 25 % more. */
const JITTER = 0.5;
const PROBE_GRACE_MS = 1_000;

export function createCircuitBreaker({
  clock,
  random,
  onStateChange: onChange = () => {},
}: CircuitBreakerOptions): CircuitBreaker {
  let state: State = closed();

  function become(next: State): void {
    state = next;
    onChange(next.kind);
  }

  /** Time alone makes an open circuit half open. */
  function now(): State {
    if (state.kind === "open" && clock.now() >= state.untilMs)
      become({ kind: "half_open", openForMs: state.openForMs, probe: undefined });
    return state;
  }

  const recent = (outcomes: readonly Outcome[]) =>
    outcomes.filter(({ atMs }) => atMs > clock.now() - WINDOW_MS);

  function open(openForMs: number): void {
    become({
      kind: "open",
      openForMs,
      untilMs: clock.now() + openForMs * (1 + JITTER * (random() - 0.5)),
    });
  }

  function settleClosed(began: State & { readonly kind: "closed" }, failed: boolean): void {
    const outcomes = [...recent(began.outcomes), { atMs: clock.now(), failed }].slice(
      -WINDOW_CALLS,
    );
    began.outcomes = outcomes;
    const failures = outcomes.filter((one) => one.failed).length;
    const isMostlyFailing =
      outcomes.length >= MIN_CALLS && failures >= MAX_FAILED_SHARE * outcomes.length;
    if (
      failed &&
      (isMostlyFailing || countConsecutiveFailures(outcomes) >= MAX_CONSECUTIVE_FAILURES)
    )
      open(FIRST_OPEN_MS);
  }

  const mayProbe = ({ probe }: State & { readonly kind: "half_open" }) =>
    probe === undefined || clock.now() >= probe.endsAtMs;

  return {
    get state() {
      return now().kind;
    },
    get consecutiveFailures() {
      return state.kind === "closed" ? countConsecutiveFailures(recent(state.outcomes)) : 0;
    },
    get remainingOpenMs() {
      const at = now();
      return at.kind === "open" ? at.untilMs - clock.now() : 0;
    },
    get allowsCalls() {
      const at = now();
      return at.kind === "closed" || (at.kind === "half_open" && mayProbe(at));
    },

    tryAcquire(timeoutMs) {
      const began = now();
      if (began.kind === "closed") {
        let isOver = false;
        const settle = (failed: boolean) => () => {
          if (!isOver && state === began) settleClosed(began, failed);
          isOver = true;
        };
        return { succeed: settle(false), fail: settle(true), cancel: () => (isOver = true) };
      }
      if (began.kind === "open" || !mayProbe(began)) return undefined;
      const probe: Probe = { endsAtMs: clock.now() + timeoutMs + PROBE_GRACE_MS };
      began.probe = probe;
      const settle = (then: () => void) => () => {
        if (state === began && began.probe === probe) then();
      };
      return {
        succeed: settle(() => become(closed())),
        fail: settle(() => open(Math.min(MAX_OPEN_MS, began.openForMs * 2))),
        cancel: settle(() => (began.probe = undefined)),
      };
    },

    halfOpen() {
      if (state.kind === "open")
        become({ kind: "half_open", openForMs: state.openForMs, probe: undefined });
    },
  };
}

const closed = (): State & { readonly kind: "closed" } => ({ kind: "closed", outcomes: [] });
const countConsecutiveFailures = (outcomes: readonly Outcome[]): number =>
  outcomes.length - 1 - outcomes.findLastIndex(({ failed }) => !failed);
