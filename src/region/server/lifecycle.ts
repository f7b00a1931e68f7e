// Lifecycle of the server: whether it accepts requests, and how many are in flight. Readiness reports it; a drain awaits it.

import { systemClock, type Clock } from "../../core/clock.ts";
import { regionServerErrors } from "./errors.ts";

/**
 * - `leaving`: readiness is off, but requests are still accepted, because they may have been sent before it was known
 * - `draining`: new requests are rejected, accepted ones are finished
 */
export type LifecycleState = "starting" | "serving" | "leaving" | "draining";

export interface DrainTimeouts {
  /** Duration of the `leaving` state. */
  readonly lingerMs: number;
  /** Limit of the whole drain. */
  readonly timeoutMs: number;
}

export interface Lifecycle {
  readonly state: LifecycleState;
  /** Requests that were accepted and not yet answered. */
  readonly inFlight: number;
  /** Makes the server ready. */
  start(): void;
  /** Runs one request's work. @throws draining */
  track<Result>(work: () => Promise<Result>): Promise<Result>;
  /** @returns whether every accepted request finished in time */
  drain(timeouts: DrainTimeouts): Promise<boolean>;
}

export function createLifecycle(clock: Clock = systemClock): Lifecycle {
  let state: LifecycleState = "starting";
  let inFlight = 0;
  let onIdle = () => {};

  const delay = (delayMs: number) =>
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
        if (inFlight === 0) onIdle();
      }
    },
    async drain({ lingerMs, timeoutMs }) {
      const endsAtMs = clock.now() + timeoutMs;
      state = "leaving";
      await delay(Math.min(lingerMs, timeoutMs));
      state = "draining";
      if (inFlight === 0) return true;
      return await new Promise((resolve) => {
        const cancelTimer = clock.setTimer(
          () => resolve(false),
          Math.max(0, endsAtMs - clock.now()),
        );
        onIdle = () => {
          cancelTimer();
          resolve(true);
        };
      });
    },
  };
}
