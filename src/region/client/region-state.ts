// One region as this isolate sees it: how quick, how busy, how well.
//
// All of it is the isolate's own: thousands of others see the same region each for themselves, and this one forgets with its
// end. So what is known comes with the answers, not from looking around; a breaker opens in each isolate after its own few
// failures; and nothing here is a promise, which one request must not await of another (calls leave times after which they are
// over in any case, since the platform ends requests without a word).

import type { Clock } from "../../core/clock.ts";
import type { GeoPoint } from "../../core/geo.ts";
import type { OrcaLoadReport } from "../../protocol/load-report.ts";
import type { RegionClient } from "../region-client.ts";
import { type CircuitBreaker, type CircuitState, createCircuitBreaker } from "./circuit-breaker.ts";
import type { MovingAverages } from "./moving-averages.ts";
import { createRegionLatencies, type RegionLatencies } from "./region-latencies.ts";
import { estimateRoundTripMs } from "./round-trip-estimate.ts";

export interface PooledRegion {
  readonly id: string;
  readonly location?: GeoPoint | undefined;
  /** What clients may be told. */
  readonly publicUrl?: string | undefined;
  readonly client: RegionClient;
}

/**
 * How a call ended.
 * - `rejected`: the region answers, but not this
 * - `timed_out`: no answer within the caller's time, or the caller has left. Held against the region only where it had time enough.
 * - `abandoned`: another one was quicker. Never held against it.
 * - `inconclusive`: it tells nothing of the region
 */
export type CallOutcome =
  | "answered"
  | "rejected"
  | "failed"
  | "timed_out"
  | "abandoned"
  | "inconclusive";

export interface RegionState {
  readonly region: PooledRegion;
  readonly breaker: CircuitBreaker;
  /** `unhealthy` ones are left out. */
  readonly health: "healthy" | "doubtful" | "unhealthy";
  /** Whether it may be asked: else only where no other is left, or not at all (`breaker.allowsCalls`). */
  readonly isReady: boolean;
  readonly inFlight: number;
  /** How long a call from there is expected to take. */
  expectedMs(kind: string, from: GeoPoint | undefined): number;
  readonly latencies: Pick<RegionLatencies, "quantileMs" | "hasRecentCall">;
  recordLoadReport(load: OrcaLoadReport): void;
  /** It has said that it is busy. */
  recordBusy(): void;
  /** Whether it has more to do than it can, by its own word of just now. */
  readonly isSaturated: boolean;
  /** @returns tells how it ended; undefined where the breaker lets none through */
  tryStartCall(
    kind: string,
    from: GeoPoint | undefined,
    timeoutMs: number,
  ): ((end: CallOutcome) => void) | undefined;
  /** Asks it whether it is ready, if that is in doubt and was not asked just now. */
  checkHealthIfDue(waitUntil: (work: Promise<unknown>) => void): void;
}

export interface RegionStateOptions {
  readonly clock: Clock;
  readonly random: () => number;
  /** What calls take beside the way, in whichever region: so one that was not asked yet does not look like the quickest. */
  readonly serviceTimes: MovingAverages;
  readonly onCircuitChange: (to: CircuitState) => void;
}

/** A report of its load holds so long. */
const LOAD_REPORT_TTL_MS = 2_000;
/** What it refused for want of room holds so long: its `retry-after` is a second. */
const BUSY_TTL_MS = 1_000;
/** Of what it takes at once, the share from which on it is about to refuse. */
const SATURATED_UTILIZATION = 0.9;
const DEGRADED_AFTER_FAILURES = 2;
/**
 * Of one region in one isolate. Only regions in doubt are asked: calls tell of the others for nothing, while each isolate's
 * asking would reach a region thousands of times, and takes one of the few requests that the platform allows at a time.
 */
const HEALTH_CHECK_INTERVAL_MS = 5_000;
/** Times the usual latency: who had that much time and got no answer was not too short of it. */
const TIMEOUT_LATENCY_FACTOR = 3;
/** The platform may end a request without a word: its call is over so long after its time. */
const GRACE_MS = 1_000;
/** Powers of two that failures in a row make it count as slower. */
const MAX_PENALTY_EXPONENT = 6;
/** For what runs in a region, until it has been measured. */
const DEFAULT_SERVICE_MS = 10;

export function createRegionState(
  region: PooledRegion,
  { clock, random, serviceTimes: services, onCircuitChange: onCircuit }: RegionStateOptions,
): RegionState {
  const breaker = createCircuitBreaker({ clock, random, onStateChange: onCircuit });
  const latencies = createRegionLatencies(clock);
  const calls = new Set<{ readonly startedAtMs: number; readonly endsAtMs: number }>();
  let load: { readonly report: OrcaLoadReport; readonly atMs: number } | undefined;
  let busyAtMs = -Infinity;
  /** Its own last word. */
  let isReady = true;
  let checkedAtMs = -Infinity;

  const usualMs = (kind: string, tripMs: number) =>
    latencies.meanMs(kind, tripMs + services.meanMs(kind, DEFAULT_SERVICE_MS));

  const freshReport = (): OrcaLoadReport =>
    load !== undefined && clock.now() - load.atMs < LOAD_REPORT_TTL_MS ? load.report : {};

  /** In the order in which they began. */
  function running(): readonly { readonly startedAtMs: number }[] {
    for (const call of calls) if (call.endsAtMs <= clock.now()) calls.delete(call);
    return [...calls];
  }

  /** Half of what is under way has waited longer already: so a region that hangs is noticed before any call has failed. */
  function medianAgeMs(): number {
    const all = running();
    const middle = all[Math.floor(all.length / 2)];
    return middle === undefined ? 0 : clock.now() - middle.startedAtMs;
  }

  const isInDoubt = () =>
    !isReady || breaker.state === "open" || breaker.consecutiveFailures >= DEGRADED_AFTER_FAILURES;

  async function check(): Promise<void> {
    const wasReady = isReady;
    isReady = await region.client.isReady();
    if (isReady && !wasReady) breaker.halfOpen();
  }

  return {
    region,
    breaker,
    get health() {
      if (!isReady || breaker.state === "open") return "unhealthy";
      return isInDoubt() || breaker.state === "half_open" ? "doubtful" : "healthy";
    },
    get isReady() {
      return isReady;
    },
    get inFlight() {
      return running().length;
    },
    latencies,

    expectedMs(kind, from) {
      const report = freshReport();
      const leastMs = Math.max(
        usualMs(kind, estimateRoundTripMs(from, region.location)),
        medianAgeMs(),
        report.oldestQueuedMs ?? 0,
      );
      return (
        leastMs *
        (1 + (report.utilization ?? 0)) *
        2 ** Math.min(MAX_PENALTY_EXPONENT, breaker.consecutiveFailures)
      );
    },

    recordLoadReport(report) {
      load = { report, atMs: clock.now() };
    },
    recordBusy() {
      busyAtMs = clock.now();
    },
    get isSaturated() {
      return (
        clock.now() - busyAtMs < BUSY_TTL_MS ||
        (freshReport().utilization ?? 0) >= SATURATED_UTILIZATION
      );
    },

    tryStartCall(kind, from, timeoutMs) {
      const verdict = breaker.tryAcquire(timeoutMs);
      if (verdict === undefined) return undefined;
      const startedAtMs = clock.now();
      const tripMs = estimateRoundTripMs(from, region.location);
      const medianMs = latencies.quantileMs(0.5, 1, kind) ?? usualMs(kind, tripMs);
      const call = { startedAtMs, endsAtMs: startedAtMs + timeoutMs + GRACE_MS };
      calls.add(call);
      latencies.recordStart(kind);
      return (end) => {
        calls.delete(call);
        const tookMs = clock.now() - startedAtMs;
        const isOutOfTime = end === "timed_out" || (end === "failed" && tookMs >= timeoutMs);
        if (end === "answered" || end === "rejected") verdict.succeed();
        else if (isOutOfTime ? tookMs >= TIMEOUT_LATENCY_FACTOR * medianMs : end === "failed")
          verdict.fail();
        else verdict.cancel();
        if (end === "answered") services.record(kind, tookMs - tripMs);
        // A call that was given up late would have taken longer still: left out, the slow ones would be missing from the histogram.
        // So would those that ran out of their client's time; but a short time says nothing of a region that is slower than it anyway.
        const isLate =
          end === "abandoned"
            ? tookMs > medianMs
            : isOutOfTime && tookMs > (latencies.quantileMs(0.95, 1, kind) ?? 0);
        if (end === "answered" || isLate) latencies.record(kind, tookMs);
        else if (isOutOfTime && tookMs > medianMs) latencies.recordTimeout(kind, tookMs);
      };
    },

    checkHealthIfDue(waitUntil) {
      if (!isInDoubt() || clock.now() - checkedAtMs < HEALTH_CHECK_INTERVAL_MS) return;
      checkedAtMs = clock.now();
      waitUntil(check());
    },
  };
}
