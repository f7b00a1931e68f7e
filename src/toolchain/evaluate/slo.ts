// Latency SLO: checks whether a model meets its latency class, which is the p99 latency that its manifest promises.

import { quantile } from "./latency.ts";

export interface LatencyPercentiles {
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  readonly n: number;
}

export function computePercentiles(ms: readonly number[]): LatencyPercentiles {
  return {
    p50Ms: quantile(ms, 0.5),
    p95Ms: quantile(ms, 0.95),
    p99Ms: quantile(ms, 0.99),
    n: ms.length,
  };
}

export type SloResult =
  | { readonly kind: "none" }
  | { readonly kind: "met" | "missed"; readonly classMs: number; readonly p99Ms: number };

/** @param cascade computing time without the network */
export function checkSlo(classMs: number | undefined, cascade: LatencyPercentiles): SloResult {
  if (classMs === undefined) return { kind: "none" };
  return { kind: cascade.p99Ms <= classMs ? "met" : "missed", classMs, p99Ms: cascade.p99Ms };
}
