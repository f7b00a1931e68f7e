// Load progress: prints figures of the last interval at regular intervals.

import type { Clock } from "../../core/clock.ts";
import { createDistribution } from "./distribution.ts";
import type { LoopEvents } from "./open-loop.ts";

export interface ProgressOptions {
  readonly show: (line: string) => void;
  readonly intervalMs: number;
  readonly clock: Clock;
  readonly ratePerSecond: number;
  /** Total duration including the warm-up. */
  readonly totalMs: number;
}

/**
 * Starts printing. The returned events count calls and forward to `events`.
 * The caller must call `stop` at the end.
 */
export function startProgress(
  { show, intervalMs, clock, ratePerSecond, totalMs }: ProgressOptions,
  events: LoopEvents,
): LoopEvents & { stop(): void } {
  const startedAtMs = clock.now();
  let [inFlight, sent, answered, failed] = [0, 0, 0, 0];
  let latenciesMs: number[] = [];
  let cancel = scheduleNext();

  function scheduleNext(): () => void {
    return clock.setTimer(() => {
      const recent = createDistribution(latenciesMs);
      const latency =
        recent.count === 0
          ? "no answers"
          : `p50 ${formatMs(recent.quantile(0.5))}, p99 ${formatMs(recent.quantile(0.99))}, max ${formatMs(recent.quantile(1))}`;
      show(
        `${seconds(clock.now() - startedAtMs)} of ${seconds(totalMs)} s at ${formatRate(ratePerSecond)}/s: ${perSecond(sent)}/s sent, ${perSecond(answered)}/s answered, ${latency}, ${failed} failed, ${inFlight} in flight`,
      );
      [sent, answered, latenciesMs] = [0, 0, []];
      cancel = scheduleNext();
    }, intervalMs);
  }

  const perSecond = (count: number) => formatRate((1_000 * count) / intervalMs);
  return {
    sent(index, lagMs) {
      inFlight++;
      sent++;
      events.sent(index, lagMs);
    },
    answered(index, latencyMs, reply) {
      inFlight--;
      answered++;
      latenciesMs.push(latencyMs);
      events.answered(index, latencyMs, reply);
    },
    failed(index, latencyMs, error) {
      inFlight--;
      failed++;
      events.failed(index, latencyMs, error);
    },
    stop: () => cancel(),
  };
}

const seconds = (ms: number) => Math.round(ms / 1_000);
export const formatMs = (ms: number): string =>
  `${ms < 10 ? ms.toFixed(2) : ms < 100 ? ms.toFixed(1) : Math.round(ms)} ms`;
export const formatRate = (rate: number): string =>
  rate < 100 ? String(Number(rate.toFixed(1))) : String(Math.round(rate));
