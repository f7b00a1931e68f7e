// How long anybody wants a request's answer: until its deadline, and as long as its client is there. Handed to every stage as one object.

import type { Clock } from "../core/clock.ts";
import { errors } from "../core/errors.ts";

export interface Deadline {
  /** In milliseconds from the request's arrival. */
  readonly budgetMs: number;
  /** The client named it: then no answer comes later. A model's default only forbids escalation: a first answer may be late. */
  readonly strict: boolean;
  /** Aborts at the deadline, and when the client leaves. */
  readonly signal: AbortSignal;
  /** The client has left: nothing is to be computed for it any more. */
  readonly isAbandoned: boolean;
  /** What is left, in milliseconds; 0 once it has passed. */
  remainingMs(): number;
  /** Waits for `work` while the client does, if strict until the deadline only. @throws deadline_exceeded, request_cancelled; the work itself goes on. */
  race<Result>(work: Promise<Result>): Promise<Result>;
  /** Stops the timer. Call it when the request is over. */
  end(): void;
}

export interface DeadlineOptions {
  readonly budgetMs: number;
  readonly strict: boolean;
  /** When the request arrived, by the same clock; now if left out. */
  readonly arrivedAtMs?: number;
  /** Aborts when the client leaves. */
  readonly clientGone?: AbortSignal;
}

export function startDeadline(clock: Clock, options: DeadlineOptions): Deadline {
  const { budgetMs, strict, arrivedAtMs = clock.now(), clientGone } = options;
  const endsAtMs = arrivedAtMs + budgetMs;
  const remainingMs = () => Math.max(0, endsAtMs - clock.now());
  const controller = new AbortController();
  const { signal } = controller;
  const stopTimer = clock.setTimer(() => controller.abort(errors.deadlineExceeded(budgetMs)), remainingMs());

  const abandoned = new AbortController();
  const onClientGone = () => {
    abandoned.abort(errors.requestCancelled());
    controller.abort(abandoned.signal.reason);
  };
  if (clientGone?.aborted === true) onClientGone();
  clientGone?.addEventListener("abort", onClientGone, { once: true });

  return {
    budgetMs,
    strict,
    signal,
    get isAbandoned() {
      return abandoned.signal.aborted;
    },
    remainingMs,
    race: (work) => raced(work, strict ? signal : abandoned.signal),
    end() {
      stopTimer();
      clientGone?.removeEventListener("abort", onClientGone);
    },
  };
}

function raced<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
