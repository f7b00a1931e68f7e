// Times the phases of one request for its `server-timing` header.

import type { Clock } from "../core/clock.ts";

export type Phase = "access" | "manifest" | "cache" | "load" | "edge" | "region";

export interface PhaseTimer {
  /** Runs `work` and adds its duration to the phase. */
  measure<Result>(phase: Phase, work: () => Promise<Result>): Promise<Result>;
  /** The value of `server-timing`. A phase that the clock did not see (at the edge time stands still without I/O) is left out. */
  serverTiming(): string;
  /** What each phase took so far. */
  durations(): Iterable<readonly [phase: Phase, durationMs: number]>;
}

/** @param startedAtMs when the request arrived, by the same clock */
export function startPhaseTimer(clock: Clock, startedAtMs: number): PhaseTimer {
  const durationsMs = new Map<Phase, number>();
  return {
    async measure(phase, work) {
      const beganAtMs = clock.now();
      try {
        return await work();
      } finally {
        durationsMs.set(phase, (durationsMs.get(phase) ?? 0) + clock.now() - beganAtMs);
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
