// Traced phase timer: records phases with a duration as spans of their request. Calls to regions have their own spans.

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
      const recordSpan = (error?: string) => {
        if (clock.now() > startMs) span.startChild(phase, {}, { startMs }).end(error);
      };
      return phases.measure(phase, async () => {
        try {
          const result = await work();
          recordSpan();
          return result;
        } catch (error) {
          recordSpan(asEdgeTierError(error).code);
          throw error;
        }
      });
    },
  };
}
