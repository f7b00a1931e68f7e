// State of one region as this isolate sees it: latency, load and health.
//
// Each isolate has its own state and loses it when it ends; thousands of others watch the same region independently. The state
// is therefore learned from responses and not by polling, and each isolate opens its own breaker after a few failures. Nothing
// here is a promise, because in workerd one request must not await another's. Calls leave end times instead, since the platform
// may end a request silently.

import type { Clock } from "../../core/clock.ts";
import type { GeoPoint } from "../../core/geo.ts";
import type { OrcaLoadReport } from "../../protocol/load-report.ts";
import type { RegionClient } from "../region-client.ts";
import {
  type CircuitBreaker,
  type CircuitPermit,
  type CircuitState,
  createCircuitBreaker,
} from "./circuit-breaker.ts";
import type { MovingAverages } from "./moving-averages.ts";
import { createRegionLatencies, type RegionLatencies } from "./region-latencies.ts";
import { estimateRoundTripMs } from "./round-trip-estimate.ts";

export interface PooledRegion {
  readonly id: string;
  readonly location?: GeoPoint | undefined;
  /** URL for clients that call the region directly. */
  readonly publicUrl?: string | undefined;
  readonly client: RegionClient;
}

/**
 * How a call ended.
 * - `rejected`: the region answered with a rejection
 * - `timed_out`: no answer within the caller's timeout, or the caller disconnected; a failure only if the time was ample
 * - `abandoned`: another attempt was faster; never a failure
 * - `inconclusive`: the outcome says nothing about the region
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
  /** An `unhealthy` region is not called while another is available. */
  readonly health: "healthy" | "doubtful" | "unhealthy";
  /** Whether the region reported readiness. If it did not, it is called only when no other region is available. */
  readonly isReady: boolean;
  readonly inFlight: number;
  /** Expected latency of a call from this location. */
  expectedMs(latencyKey: string, from: GeoPoint | undefined): number;
  readonly latencies: Pick<RegionLatencies, "quantileMs" | "hasRecentCall">;
  recordLoadReport(load: OrcaLoadReport): void;
  /** Records a response that says the region is busy. */
  recordBusy(): void;
  /** Whether a recent response says that the region is saturated. */
  readonly isSaturated: boolean;
  /** @returns a function that records the outcome; undefined if the circuit breaker blocks the call */
  tryStartCall(
    latencyKey: string,
    from: GeoPoint | undefined,
    timeoutMs: number,
  ): ((outcome: CallOutcome) => void) | undefined;
  /** Checks the region's readiness if its health is in doubt and the last check is not recent. */
  checkHealthIfDue(waitUntil: (work: Promise<unknown>) => void): void;
}

export interface RegionStateOptions {
  readonly clock: Clock;
  readonly random: () => number;
  /** Call durations without the round trip, over all regions. A region without samples would otherwise look fastest. */
  readonly serviceTimes: MovingAverages;
  readonly onCircuitChange: (to: CircuitState) => void;
}

/** Validity of a load report. */
const LOAD_REPORT_TTL_MS = 2_000;
/** Validity of a busy response, equal to its `retry-after` of one second. */
const BUSY_TTL_MS = 1_000;
/** Utilization from which the region is about to reject requests. */
const SATURATED_UTILIZATION = 0.9;
const DEGRADED_AFTER_FAILURES = 2;
/**
 * Minimum interval of health checks, per region and isolate. Only regions in doubt are checked: calls already measure the
 * others. Polling from every isolate would reach a region thousands of times and use up concurrent subrequests.
 */
const HEALTH_CHECK_INTERVAL_MS = 5_000;
/** A timeout counts as a failure from this multiple of the usual latency on. */
const TIMEOUT_LATENCY_FACTOR = 3;
/** A call counts as ended this long after its timeout, because the platform may end a request silently. */
const GRACE_MS = 1_000;
/** Maximum exponent of the latency penalty, which doubles with each consecutive failure. */
const MAX_PENALTY_EXPONENT = 6;
/** Assumed duration in a region without samples. */
const DEFAULT_SERVICE_MS = 10;

export function createRegionState(
  region: PooledRegion,
  { clock, random, serviceTimes, onCircuitChange }: RegionStateOptions,
): RegionState {
  const breaker = createCircuitBreaker({ clock, random, onStateChange: onCircuitChange });
  const latencies = createRegionLatencies(clock);
  const calls = createInFlightCalls(clock);
  const load = createLoadSignals(clock);
  const health = createHealth(region, breaker, clock);

  const usualMs = (latencyKey: string, roundTripMs: number) =>
    latencies.meanMs(latencyKey, roundTripMs + serviceTimes.meanMs(latencyKey, DEFAULT_SERVICE_MS));

  return {
    region,
    breaker,
    get health() {
      return health.status();
    },
    get isReady() {
      return health.isReady();
    },
    get inFlight() {
      return calls.count();
    },
    latencies,
    recordLoadReport: load.recordReport,
    recordBusy: load.recordBusy,
    get isSaturated() {
      return load.isSaturated();
    },

    expectedMs(latencyKey, from) {
      const { oldestQueuedMs = 0, utilization = 0 } = load.freshReport();
      const roundTripMs = estimateRoundTripMs(from, region.location);
      const minMs = Math.max(usualMs(latencyKey, roundTripMs), calls.medianAgeMs(), oldestQueuedMs);
      const penaltyExponent = Math.min(MAX_PENALTY_EXPONENT, breaker.consecutiveFailures);
      return minMs * (1 + utilization) * 2 ** penaltyExponent;
    },

    tryStartCall(latencyKey, from, timeoutMs) {
      const permit = breaker.tryAcquire(timeoutMs);
      if (permit === undefined) return undefined;
      const startedAtMs = clock.now();
      const roundTripMs = estimateRoundTripMs(from, region.location);
      const medianMs = latencies.quantileMs(0.5, 1, latencyKey) ?? usualMs(latencyKey, roundTripMs);
      const finishCall = calls.start(timeoutMs);
      latencies.recordStart(latencyKey);
      return (outcome) => {
        finishCall();
        const durationMs = clock.now() - startedAtMs;
        const call = { latencyKey, outcome, durationMs, timeoutMs, medianMs };
        reportToBreaker(permit, call);
        if (outcome === "answered") serviceTimes.record(latencyKey, durationMs - roundTripMs);
        recordLatency(latencies, call);
      };
    },

    checkHealthIfDue: health.checkIfDue,
  };
}

/** Tracks the region's readiness, checked only while its health is in doubt. */
function createHealth({ client }: PooledRegion, breaker: CircuitBreaker, clock: Clock) {
  let isReady = true;
  let checkedAtMs = -Infinity;

  const isInDoubt = () =>
    !isReady || breaker.state === "open" || breaker.consecutiveFailures >= DEGRADED_AFTER_FAILURES;

  async function check(): Promise<void> {
    const wasReady = isReady;
    isReady = await client.isReady();
    if (isReady && !wasReady) breaker.halfOpen();
  }

  return {
    isReady: () => isReady,
    status(): RegionState["health"] {
      if (!isReady || breaker.state === "open") return "unhealthy";
      return isInDoubt() || breaker.state === "half_open" ? "doubtful" : "healthy";
    },
    checkIfDue(waitUntil: (work: Promise<unknown>) => void): void {
      if (!isInDoubt() || clock.now() - checkedAtMs < HEALTH_CHECK_INTERVAL_MS) return;
      checkedAtMs = clock.now();
      waitUntil(check());
    },
  };
}

interface EndedCall {
  readonly latencyKey: string;
  readonly outcome: CallOutcome;
  readonly durationMs: number;
  readonly timeoutMs: number;
  /** Median latency when the call started. */
  readonly medianMs: number;
}

const hasTimedOut = ({ outcome, durationMs, timeoutMs }: EndedCall): boolean =>
  outcome === "timed_out" || (outcome === "failed" && durationMs >= timeoutMs);

function reportToBreaker(permit: CircuitPermit, call: EndedCall): void {
  const { outcome, durationMs, medianMs } = call;
  const isFailure = hasTimedOut(call)
    ? durationMs >= TIMEOUT_LATENCY_FACTOR * medianMs
    : outcome === "failed";
  if (outcome === "answered" || outcome === "rejected") permit.recordSuccess();
  else if (isFailure) permit.recordFailure();
  else permit.cancel();
}

/**
 * Records a call's duration. Without abandoned and timed-out calls, the histogram would miss the slowest ones. A timeout
 * shorter than the usual latency says nothing about the region, so it is not recorded.
 */
function recordLatency(latencies: RegionLatencies, call: EndedCall): void {
  const { latencyKey, outcome, durationMs, medianMs } = call;
  const isTimeout = hasTimedOut(call);
  const isLate =
    outcome === "abandoned"
      ? durationMs > medianMs
      : isTimeout && durationMs > (latencies.quantileMs(0.95, 1, latencyKey) ?? 0);
  if (outcome === "answered" || isLate) latencies.record(latencyKey, durationMs);
  else if (isTimeout && durationMs > medianMs) latencies.recordTimeout(latencyKey, durationMs);
}

/** Tracks the calls in flight, in the order in which they started. */
function createInFlightCalls(clock: Clock) {
  const calls = new Set<{ readonly startedAtMs: number; readonly endsAtMs: number }>();

  function running(): readonly { readonly startedAtMs: number }[] {
    for (const call of calls) if (call.endsAtMs <= clock.now()) calls.delete(call);
    return [...calls];
  }

  return {
    count: () => running().length,
    /** Returns the median age of the calls in flight, which reveals a hanging region before any call fails. */
    medianAgeMs(): number {
      const all = running();
      const middle = all[Math.floor(all.length / 2)];
      return middle === undefined ? 0 : clock.now() - middle.startedAtMs;
    },
    /** @returns a function that ends the call */
    start(timeoutMs: number): () => void {
      const startedAtMs = clock.now();
      const call = { startedAtMs, endsAtMs: startedAtMs + timeoutMs + GRACE_MS };
      calls.add(call);
      return () => void calls.delete(call);
    },
  };
}

/** Holds what the region last reported about its load. */
function createLoadSignals(clock: Clock) {
  let last: { readonly report: OrcaLoadReport; readonly atMs: number } | undefined;
  let busyAtMs = -Infinity;

  const freshReport = (): OrcaLoadReport =>
    last !== undefined && clock.now() - last.atMs < LOAD_REPORT_TTL_MS ? last.report : {};

  return {
    freshReport,
    recordReport(report: OrcaLoadReport): void {
      last = { report, atMs: clock.now() };
    },
    recordBusy(): void {
      busyAtMs = clock.now();
    },
    isSaturated: (): boolean =>
      clock.now() - busyAtMs < BUSY_TTL_MS ||
      (freshReport().utilization ?? 0) >= SATURATED_UTILIZATION,
  };
}
