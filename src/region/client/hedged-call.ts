// Sends a call again if its answer is late (a hedge: Dean and Barroso, The Tail at Scale, 2013) or has failed (a retry). The
// first good answer wins; attempts still in flight are abandoned.

import type { Clock } from "../../core/clock.ts";
import type { RegionFailure } from "../region-client.ts";
import type { Attempt, AttemptOutcome } from "./attempt.ts";

export interface HedgedCallOptions<Answer> {
  readonly clock: Clock;
  /** Counted from now; undefined disables hedging. */
  readonly hedgeAfterMs: number | undefined;
  /** @returns undefined if no further attempt may start */
  startHedge(): Attempt<Answer> | undefined;
  startRetry(failure: RegionFailure): Attempt<Answer> | undefined;
}

/** @returns the attempt that counts: the first without a failure, otherwise the last to fail */
export function hedgedCall<Answer>(
  first: Attempt<Answer>,
  { clock, hedgeAfterMs, startHedge, startRetry }: HedgedCallOptions<Answer>,
): Promise<{ readonly attempt: Attempt<Answer>; readonly ended: AttemptOutcome<Answer> }> {
  return new Promise((resolve) => {
    const running = new Set<Attempt<Answer>>();
    const stopTimer =
      hedgeAfterMs === undefined
        ? () => {}
        : clock.setTimer(() => void watch(startHedge()), hedgeAfterMs);

    function watch(attempt: Attempt<Answer> | undefined): boolean {
      if (attempt === undefined) return false;
      running.add(attempt);
      void attempt.outcome.then((ended) => running.delete(attempt) && finish(attempt, ended));
      return true;
    }

    function finish(attempt: Attempt<Answer>, ended: AttemptOutcome<Answer>): void {
      if (ended.failure !== undefined) {
        if (running.size > 0) return; // Another attempt is in flight and may still succeed.
        stopTimer();
        if (watch(startRetry(ended.failure))) return attempt.cancel(); // Releases a response body that nobody reads.
      }
      stopTimer();
      for (const other of running) other.cancel();
      running.clear();
      resolve({ attempt, ended });
    }

    watch(first);
  });
}
