// The moment by which one request wants its answer, handed to every stage as one object.

import type { Clock } from "../core/clock.ts";
import { errors } from "../core/errors.ts";

export interface Deadline {
  /** In milliseconds from the request's arrival. */
  readonly budgetMs: number;
  /** The client named it: then no answer comes later. A model's default only forbids escalation: a first answer may be late. */
  readonly strict: boolean;
  /** Aborts at the deadline. */
  readonly signal: AbortSignal;
  /** What is left, in milliseconds; 0 once it has passed. */
  remainingMs(): number;
  /** Waits for `work`, if strict until the deadline only. @throws deadline_exceeded; the work itself goes on. */
  race<Result>(work: Promise<Result>): Promise<Result>;
  /** Stops the timer. Call it when the request is over. */
  end(): void;
}

export interface DeadlineOptions {
  readonly budgetMs: number;
  readonly strict: boolean;
  /** When the request arrived, by the same clock; now if left out. */
  readonly arrivedAtMs?: number;
}

export function startDeadline(clock: Clock, options: DeadlineOptions): Deadline {
  const { budgetMs, strict, arrivedAtMs = clock.now() } = options;
  const endsAtMs = arrivedAtMs + budgetMs;
  const remainingMs = () => Math.max(0, endsAtMs - clock.now());
  const controller = new AbortController();
  const { signal } = controller;
  const stopTimer = clock.setTimer(() => controller.abort(errors.deadlineExceeded(budgetMs)), remainingMs());

  return {
    budgetMs,
    strict,
    signal,
    remainingMs,
    race(work) {
      if (!strict) return work;
      return new Promise((resolve, reject) => {
        const onAbort = () => reject(signal.reason);
        if (signal.aborted) onAbort();
        signal.addEventListener("abort", onAbort, { once: true });
        work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
      });
    },
    end: stopTimer,
  };
}
