// System clock with fractions of a millisecond, because runs of small models are short.

import { type Clock, systemClock } from "../../../core/clock.ts";

/** Maximum difference from the system clock, which may be set at any time and which the rest of the process uses. */
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
