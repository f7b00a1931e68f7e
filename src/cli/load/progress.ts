// How a load is doing, now and then: what the last seconds were like.

import type { Clock } from "../../core/clock.ts";
import { createDistribution } from "./distribution.ts";
import type { LoopEvents } from "./open-loop.ts";

export interface ProgressOptions {
  readonly show: (line: string) => void;
  readonly intervalMs: number;
  readonly clock: Clock;
  readonly ratePerSecond: number;
  /** Warm-up and all. */
  readonly totalMs: number;
}

/** @param events are told the same as what is returned, which also wants to be stopped */
export function startProgress(
  { show, intervalMs: everyMs, clock, ratePerSecond, totalMs }: ProgressOptions,
  events: LoopEvents,
): LoopEvents & { stop(): void } {
  const beganAtMs = clock.now();
  let [running, sent, answered, failed] = [0, 0, 0, 0];
  let latenciesMs: number[] = [];
  let cancel = next();

  function next(): () => void {
    return clock.setTimer(() => {
      const recent = createDistribution(latenciesMs);
      const latency =
        recent.count === 0
          ? "no answers"
          : `p50 ${formatMs(recent.quantile(0.5))}, p99 ${formatMs(recent.quantile(0.99))}, max ${formatMs(recent.quantile(1))}`;
      show(
        `${seconds(clock.now() - beganAtMs)} of ${seconds(totalMs)} s at ${formatRate(ratePerSecond)}/s: ${perSecond(sent)}/s sent, ${perSecond(answered)}/s answered, ${latency}, ${failed} failed, ${running} running`,
      );
      [sent, answered, latenciesMs] = [0, 0, []];
      cancel = next();
    }, everyMs);
  }

  const perSecond = (count: number) => formatRate((1_000 * count) / everyMs);
  return {
    sent(index, lateMs) {
      running++;
      sent++;
      events.sent(index, lateMs);
    },
    answered(index, latencyMs, reply) {
      running--;
      answered++;
      latenciesMs.push(latencyMs);
      events.answered(index, latencyMs, reply);
    },
    failed(index, latencyMs, error) {
      running--;
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
