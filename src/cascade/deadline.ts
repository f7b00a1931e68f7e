// How long anybody wants a request's answer: until its deadline, and as long as its client is there. Handed to every stage as one object.

import { coreErrors } from "../core/common-errors.ts";
import type { Clock } from "../core/clock.ts";
import { type EdgeTierError } from "../core/errors.ts";

export interface Deadline {
  /** In milliseconds from the request's arrival. */
  readonly budgetMs: number;
  /** The client named it: then no answer comes later. A model's default only forbids escalation: a first answer may be late. */
  readonly isStrict: boolean;
  /** Aborts at the deadline, and when the client leaves. */
  readonly signal: AbortSignal;
  /** The client has left: nothing is to be computed for it any more. */
  readonly isClientDisconnected: boolean;
  /** Why nobody wants the answer any more: request_cancelled, deadline_exceeded; undefined while somebody does. Needs no timer, as `signal` does. */
  readonly error: EdgeTierError | undefined;
  /** What is left, in milliseconds; 0 once it has passed. */
  remainingMs(): number;
  /** Waits for `work` while the client does, if strict until the deadline only. @throws deadline_exceeded, request_cancelled; the work itself goes on. */
  race<Result>(work: Promise<Result>): Promise<Result>;
  /** Stops the timer, if there is one. Call it when the request is over. */
  dispose(): void;
}

export interface DeadlineOptions {
  readonly budgetMs: number;
  readonly isStrict: boolean;
  /** When the request arrived, by the same clock; now if left out. */
  readonly arrivedAtMs?: number;
  /** Aborts when the client leaves. */
  readonly disconnectSignal?: AbortSignal;
}

/** Timer and listener are made for the first who waits: most answers come at once from this isolate, for which they would cost as much as a small graph. */
export function startDeadline(clock: Clock, options: DeadlineOptions): Deadline {
  const {
    budgetMs,
    isStrict: strict,
    arrivedAtMs = clock.now(),
    disconnectSignal: clientGone,
  } = options;
  const endsAtMs = arrivedAtMs + budgetMs;
  const remainingMs = () => Math.max(0, endsAtMs - clock.now());
  const isAbandoned = () => clientGone?.aborted === true;
  const stops: (() => void)[] = [];
  let isEnded = false;
  let abandoned: AbortController | undefined;
  let timed: AbortController | undefined;

  function abandonedSignal(): AbortSignal {
    if (abandoned !== undefined) return abandoned.signal;
    const controller = (abandoned = new AbortController());
    const onClientGone = () => controller.abort(coreErrors.requestCancelled());
    if (isAbandoned()) onClientGone();
    else if (!isEnded) {
      clientGone?.addEventListener("abort", onClientGone, { once: true });
      stops.push(() => clientGone?.removeEventListener("abort", onClientGone));
    }
    return controller.signal;
  }

  function timedSignal(): AbortSignal {
    if (timed !== undefined) return timed.signal;
    const controller = (timed = new AbortController());
    const gone = abandonedSignal();
    if (gone.aborted) controller.abort(gone.reason);
    else gone.addEventListener("abort", () => controller.abort(gone.reason), { once: true });
    if (!isEnded)
      stops.push(
        clock.setTimer(
          () => controller.abort(coreErrors.deadlineExceeded(budgetMs)),
          remainingMs(),
        ),
      );
    return controller.signal;
  }

  return {
    budgetMs,
    isStrict: strict,
    get signal() {
      return timedSignal();
    },
    get isClientDisconnected() {
      return isAbandoned();
    },
    get error() {
      if (isAbandoned()) return coreErrors.requestCancelled();
      return remainingMs() === 0 ? coreErrors.deadlineExceeded(budgetMs) : undefined;
    },
    remainingMs,
    race: (work) => raceSignal(work, strict ? timedSignal() : abandonedSignal()),
    dispose() {
      isEnded = true;
      for (const stop of stops.splice(0)) stop();
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
