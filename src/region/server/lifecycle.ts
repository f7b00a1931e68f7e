// Whether the server takes requests, and how many it is answering: what readiness reports and what a drain waits for.

import { regionServerErrors } from "./errors.ts";
import { systemClock, type Clock } from "../../core/clock.ts";

/**
 * - `leaving`: it says that it is not ready, but still takes requests: those that were sent before anyone could know.
 * - `draining`: it takes none, and finishes what it has taken.
 */
export type LifecycleState = "starting" | "serving" | "leaving" | "draining";

export interface DrainTimeouts {
  /** How long it is `leaving` first. */
  readonly lingerMs: number;
  /** For all of the drain. */
  readonly timeoutMs: number;
}

export interface Lifecycle {
  readonly state: LifecycleState;
  /** Requests taken and not answered yet. */
  readonly inFlight: number;
  /** From now on the server says that it is ready. */
  start(): void;
  /** Does one request's work. @throws draining */
  track<Result>(work: () => Promise<Result>): Promise<Result>;
  /** @returns whether everything taken was finished within the time. */
  drain(times: DrainTimeouts): Promise<boolean>;
}

export function createLifecycle(clock: Clock = systemClock): Lifecycle {
  let state: LifecycleState = "starting";
  let inFlight = 0;
  let whenIdle = () => {};

  const passed = (delayMs: number) =>
    new Promise<void>((resolve) => void clock.setTimer(resolve, delayMs));

  return {
    get state() {
      return state;
    },
    get inFlight() {
      return inFlight;
    },
    start() {
      if (state === "starting") state = "serving";
    },
    async track(work) {
      if (state === "draining") throw regionServerErrors.draining();
      inFlight++;
      try {
        return await work();
      } finally {
        inFlight--;
        if (inFlight === 0) whenIdle();
      }
    },
    async drain({ lingerMs, timeoutMs }) {
      const endsAtMs = clock.now() + timeoutMs;
      state = "leaving";
      await passed(Math.min(lingerMs, timeoutMs));
      state = "draining";
      if (inFlight === 0) return true;
      return await new Promise((resolve) => {
        const cancelTimer = clock.setTimer(
          () => resolve(false),
          Math.max(0, endsAtMs - clock.now()),
        );
        whenIdle = () => {
          cancelTimer();
          resolve(true);
        };
      });
    },
  };
}
