// Phase timer: times the phases of one request for its `server-timing` header.

import type { Clock } from "../core/clock.ts";

export type Phase = "access" | "manifest" | "cache" | "load" | "edge" | "region";

export interface PhaseTimer {
  /** Runs `work` and adds its duration to the phase. */
  measure<Result>(phase: Phase, work: () => Promise<Result>): Promise<Result>;
  /** Value of `server-timing`. Phases of 0 ms are omitted, because the edge's clock pauses without I/O. */
  serverTiming(): string;
  /** Duration of each phase so far. */
  durations(): Iterable<readonly [phase: Phase, durationMs: number]>;
}

/** @param startedAtMs arrival time of the request by the same clock */
export function startPhaseTimer(clock: Clock, startedAtMs: number): PhaseTimer {
  const durationsMs = new Map<Phase, number>();
  return {
    async measure(phase, work) {
      const phaseStartMs = clock.now();
      try {
        return await work();
      } finally {
        durationsMs.set(phase, (durationsMs.get(phase) ?? 0) + clock.now() - phaseStartMs);
      }
    },
    serverTiming() {
      return [...durationsMs, ["total", clock.now() - startedAtMs] as const]
        .filter(([, durationMs]) => durationMs > 0)
        .map(([phase, durationMs]) => `${phase};dur=${durationMs}`)
        .join(", ");
    },
    durations: () => durationsMs,
  };
}
