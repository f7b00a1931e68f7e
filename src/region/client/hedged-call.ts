// One question, asked again elsewhere when its answer is late (a hedge: Dean and Barroso, The Tail at Scale, 2013) or has
// failed (a retry). The first good answer wins; whoever is still under way is abandoned.

import type { Clock } from "../../core/clock.ts";
import type { RegionFailure } from "../region-client.ts";
import type { Attempt, AttemptOutcome } from "./attempt.ts";

export interface HedgedCallOptions<Answer> {
  readonly clock: Clock;
  /** From now on; undefined for never. */
  readonly hedgeAfterMs: number | undefined;
  /** @returns undefined where there is to be none */
  startHedge(): Attempt<Answer> | undefined;
  startRetry(failure: RegionFailure): Attempt<Answer> | undefined;
}

/** @returns the attempt that counts: the first without a failure, else the last to fail */
export function hedgedCall<Answer>(
  first: Attempt<Answer>,
  { clock, hedgeAfterMs, startHedge: hedge, startRetry: retry }: HedgedCallOptions<Answer>,
): Promise<{ readonly attempt: Attempt<Answer>; readonly ended: AttemptOutcome<Answer> }> {
  return new Promise((resolve) => {
    const running = new Set<Attempt<Answer>>();
    const stopTimer =
      hedgeAfterMs === undefined
        ? () => {}
        : clock.setTimer(() => void watch(hedge()), hedgeAfterMs);

    function watch(attempt: Attempt<Answer> | undefined): boolean {
      if (attempt === undefined) return false;
      running.add(attempt);
      void attempt.outcome.then((ended) => running.delete(attempt) && finish(attempt, ended));
      return true;
    }

    function finish(attempt: Attempt<Answer>, ended: AttemptOutcome<Answer>): void {
      if (ended.failure !== undefined) {
        if (running.size > 0) return; // another one is under way
        stopTimer();
        if (watch(retry(ended.failure))) return attempt.cancel(); // its body, if it has one, is not read
      }
      stopTimer();
      for (const other of running) other.cancel();
      running.clear();
      resolve({ attempt, ended });
    }

    watch(first);
  });
}
