// The system's clock with fractions of a millisecond, in which runs of small models are measured.

import { type Clock, systemClock } from "../../../core/clock.ts";

/** How far it may be from the system's clock, which is set now and then; others of this process compare with that one. */
const MAX_DRIFT_MS = 2;

export function createPreciseClock(): Clock {
  let offsetMs = performance.timeOrigin;
  return {
    now() {
      const nowMs = systemClock.now();
      const steadyMs = performance.now();
      if (Math.abs(steadyMs + offsetMs - nowMs) > MAX_DRIFT_MS) offsetMs = nowMs - steadyMs;
      return steadyMs + offsetMs;
    },
    setTimer: systemClock.setTimer,
  };
}
