// Deadline: tracks how long a request's response is wanted, until its deadline or its client's disconnect. Every stage shares one
// object.

import type { Clock } from "../core/clock.ts";
import { coreErrors } from "../core/common-errors.ts";
import { type EdgeTierError } from "../core/errors.ts";

export interface Deadline {
  /** Time from the request's arrival to the deadline. */
  readonly budgetMs: number;
  /** Whether the client set the deadline, so that no response comes later. A model's default only prevents escalation. */
  readonly isStrict: boolean;
  /** Aborts at the deadline, and when the client disconnects. */
  readonly signal: AbortSignal;
  readonly isClientDisconnected: boolean;
  /** request_cancelled or deadline_exceeded, once it applies. Reading it starts no timer, unlike `signal`. */
  readonly error: EdgeTierError | undefined;
  /** @returns the remaining time, or 0 after the deadline */
  remainingMs(): number;
  /**
   * Waits for `work` until the client disconnects and, if strict, until the deadline. The work itself continues.
   * @throws deadline_exceeded, request_cancelled
   */
  race<Result>(work: Promise<Result>): Promise<Result>;
  /** Stops timer and listener. Call it at the end of the request. */
  dispose(): void;
}

export interface DeadlineOptions {
  readonly budgetMs: number;
  readonly isStrict: boolean;
  /** Arrival time of the request, by the same clock; the default is now. */
  readonly arrivedAtMs?: number;
  /** Aborts when the client disconnects. */
  readonly disconnectSignal?: AbortSignal;
}

/**
 * The timer and the listener are created on first use. Most requests are answered immediately in this isolate, and for them the
 * two would cost as much as a small graph.
 */
export function startDeadline(clock: Clock, options: DeadlineOptions): Deadline {
  const { budgetMs, isStrict, arrivedAtMs = clock.now(), disconnectSignal } = options;
  const endsAtMs = arrivedAtMs + budgetMs;
  const remainingMs = () => Math.max(0, endsAtMs - clock.now());
  const isDisconnected = () => disconnectSignal?.aborted === true;
  const signals = createDeadlineSignals({ clock, budgetMs, remainingMs, disconnectSignal });

  return {
    budgetMs,
    isStrict,
    get signal() {
      return signals.deadline();
    },
    get isClientDisconnected() {
      return isDisconnected();
    },
    get error() {
      if (isDisconnected()) return coreErrors.requestCancelled();
      return remainingMs() === 0 ? coreErrors.deadlineExceeded(budgetMs) : undefined;
    },
    remainingMs,
    race: (work) => raceSignal(work, isStrict ? signals.deadline() : signals.disconnect()),
    dispose: signals.dispose,
  };
}

interface DeadlineSignalOptions {
  readonly clock: Clock;
  readonly budgetMs: number;
  readonly remainingMs: () => number;
  readonly disconnectSignal: AbortSignal | undefined;
}

interface DeadlineSignals {
  /** Aborts with request_cancelled when the client disconnects. */
  disconnect(): AbortSignal;
  /** Aborts as `disconnect`, and with deadline_exceeded at the deadline. */
  deadline(): AbortSignal;
  dispose(): void;
}

function createDeadlineSignals({
  clock,
  budgetMs,
  remainingMs,
  disconnectSignal,
}: DeadlineSignalOptions): DeadlineSignals {
  const cleanups: (() => void)[] = [];
  let isDisposed = false;
  let disconnectController: AbortController | undefined;
  let deadlineController: AbortController | undefined;

  function disconnect(): AbortSignal {
    if (disconnectController !== undefined) return disconnectController.signal;
    const controller = (disconnectController = new AbortController());
    const onDisconnect = () => controller.abort(coreErrors.requestCancelled());
    if (disconnectSignal?.aborted === true) onDisconnect();
    else if (!isDisposed) {
      disconnectSignal?.addEventListener("abort", onDisconnect, { once: true });
      cleanups.push(() => disconnectSignal?.removeEventListener("abort", onDisconnect));
    }
    return controller.signal;
  }

  function deadline(): AbortSignal {
    if (deadlineController !== undefined) return deadlineController.signal;
    const controller = (deadlineController = new AbortController());
    const disconnected = disconnect();
    const onDisconnect = () => controller.abort(disconnected.reason);
    if (disconnected.aborted) onDisconnect();
    else disconnected.addEventListener("abort", onDisconnect, { once: true });
    const onDeadline = () => controller.abort(coreErrors.deadlineExceeded(budgetMs));
    if (!isDisposed) cleanups.push(clock.setTimer(onDeadline, remainingMs()));
    return controller.signal;
  }

  return {
    disconnect,
    deadline,
    dispose() {
      isDisposed = true;
      for (const cleanUp of cleanups.splice(0)) cleanUp();
    },
  };
}

function raceSignal<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
