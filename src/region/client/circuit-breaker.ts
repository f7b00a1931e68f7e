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

export type CircuitKind = State["kind"];

/** One call's word on how it went; of several the first counts. `cancelled` says nothing of the other side. */
export interface CircuitCall {
  readonly succeeded: () => void;
  readonly failed: () => void;
  readonly cancelled: () => void;
}

export interface CircuitBreaker {
  readonly kind: CircuitKind;
  /** While closed, up to now; failures of long ago are forgotten. */
  readonly failuresInARow: number;
  /** How long it stays open yet. */
  readonly openMs: number;
  /** Whether `begin` gives a call. */
  readonly lets: boolean;
  /** @param timeoutMs after which the call is over in any case */
  begin(timeoutMs: number): CircuitCall | undefined;
  /** The other side is known to be back: an open circuit is half open from now on. */
  probeEarly(): void;
}

export interface CircuitBreakerOptions {
  readonly clock: Clock;
  /** From 0 to 1. */
  readonly random: () => number;
  readonly onChange?: (to: CircuitKind) => void;
}

const MAX_FAILURES_IN_A_ROW = 5;
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
  onChange = () => {},
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
    if (failed && (isMostlyFailing || failuresInARow(outcomes) >= MAX_FAILURES_IN_A_ROW))
      open(FIRST_OPEN_MS);
  }

  const mayProbe = ({ probe }: State & { readonly kind: "half_open" }) =>
    probe === undefined || clock.now() >= probe.endsAtMs;

  return {
    get kind() {
      return now().kind;
    },
    get failuresInARow() {
      return state.kind === "closed" ? failuresInARow(recent(state.outcomes)) : 0;
    },
    get openMs() {
      const at = now();
      return at.kind === "open" ? at.untilMs - clock.now() : 0;
    },
    get lets() {
      const at = now();
      return at.kind === "closed" || (at.kind === "half_open" && mayProbe(at));
    },

    begin(timeoutMs) {
      const began = now();
      if (began.kind === "closed") {
        let isOver = false;
        const settle = (failed: boolean) => () => {
          if (!isOver && state === began) settleClosed(began, failed);
          isOver = true;
        };
        return { succeeded: settle(false), failed: settle(true), cancelled: () => (isOver = true) };
      }
      if (began.kind === "open" || !mayProbe(began)) return undefined;
      const probe: Probe = { endsAtMs: clock.now() + timeoutMs + PROBE_GRACE_MS };
      began.probe = probe;
      const settle = (then: () => void) => () => {
        if (state === began && began.probe === probe) then();
      };
      return {
        succeeded: settle(() => become(closed())),
        failed: settle(() => open(Math.min(MAX_OPEN_MS, began.openForMs * 2))),
        cancelled: settle(() => (began.probe = undefined)),
      };
    },

    probeEarly() {
      if (state.kind === "open")
        become({ kind: "half_open", openForMs: state.openForMs, probe: undefined });
    },
  };
}

const closed = (): State & { readonly kind: "closed" } => ({ kind: "closed", outcomes: [] });
const failuresInARow = (outcomes: readonly Outcome[]): number =>
  outcomes.length - 1 - outcomes.findLastIndex(({ failed }) => !failed);
