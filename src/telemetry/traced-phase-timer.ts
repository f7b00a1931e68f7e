// The phases of a request that the clock has seen, as spans of it too. Calls to regions have spans of their own.

import type { Clock } from "../core/clock.ts";
import { asEdgeTierError } from "../core/errors.ts";
import type { Span } from "../core/tracing.ts";
import type { PhaseTimer } from "./phase-timer.ts";

export function createTracedPhaseTimer(phases: PhaseTimer, span: Span, clock: Clock): PhaseTimer {
  return {
    ...phases,
    measure(phase, work) {
      if (phase === "region") return phases.measure(phase, work);
      const startMs = clock.now();
      const note = (error?: string) => {
        if (clock.now() > startMs) span.startChild(phase, {}, { startMs }).end(error);
      };
      return phases.measure(phase, async () => {
        try {
          const result = await work();
          note();
          return result;
        } catch (error) {
          note(asEdgeTierError(error).code);
          throw error;
        }
      });
    },
  };
}
