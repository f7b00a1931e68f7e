// How long a region's tier takes, as this isolate has seen it lately: what a deadline is compared with before the tier is asked.

import type { Clock } from "../core/clock.ts";
import { createLatencyHistogram } from "../core/latency-histogram.ts";

export interface TierLatency {
  /** Undefined where nothing is known. */
  p95Ms(): number | undefined;
  /** Times a run, and counts it. @param signal that may cut it off */
  timed<Result>(run: () => Promise<Result>, signal: AbortSignal): Promise<Result>;
}

const WINDOW_MS = 60_000;
/** Fewer say nothing about a p95. */
const MIN_SAMPLES = 20;

/** @param seedMs p95 until there are samples, as the manifest has it */
export function createTierLatency(clock: Clock, seedMs: number | undefined): TierLatency {
  const histogram = createLatencyHistogram(clock, WINDOW_MS);
  const p95Ms = () => (histogram.count < MIN_SAMPLES ? seedMs : histogram.quantile(0.95));

  return {
    p95Ms,
    async timed(run, signal) {
      const startedAtMs = clock.now();
      try {
        const result = await run();
        histogram.record(clock.now() - startedAtMs);
        return result;
      } catch (error) {
        // A run that was cut off takes longer than this, which is news only where it was thought to be quicker.
        const tookMs = clock.now() - startedAtMs;
        if (signal.aborted && tookMs >= (p95Ms() ?? 0)) histogram.record(tookMs);
        throw error;
      }
    },
  };
}
