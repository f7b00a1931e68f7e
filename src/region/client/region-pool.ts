// Combines several regions into one RegionClient: calls the region that is expected to answer first. See pooled-call.ts for
// hedges and retries, and region-state.ts for the limits of what one isolate knows.

import type { Clock } from "../../core/clock.ts";
import type { GeoPoint } from "../../core/geo.ts";
import { classifyRegionStatus, type RegionCall, type RegionClient } from "../region-client.ts";
import type { PooledCall } from "./attempt.ts";
import { createMovingAverages } from "./moving-averages.ts";
import {
  callPool,
  MIN_QUANTILE_SAMPLES,
  type PoolContext,
  type RegionEvent,
  usableRegions,
} from "./pooled-call.ts";
import { createRegionState, type PooledRegion } from "./region-state.ts";
import { describeRegions, type RegionStatus } from "./region-status.ts";
import { createRetryBudget } from "./retry-budget.ts";

export type { RegionEvent };

type LoadSignals = "latencyQuantileMs" | "isSaturated";

export interface RegionPool
  extends Omit<RegionClient, LoadSignals>, Required<Pick<RegionClient, LoadSignals>> {
  /** Lists regions by distance from `place`; those without a known location come last. */
  listRegions(place: GeoPoint | undefined): RegionStatus[];
}

export interface RegionPoolOptions {
  readonly clock: Clock;
  /** Returns numbers from 0 to 1, for the choice and for jitter. */
  readonly random?: () => number;
  /** Hedges and retries per call; 0 disables them. */
  readonly extraCallRatio?: number;
  /**
   * Whether a late call may be hedged in its own region if there is no other. A hedge helps only if single calls are slow
   * and not the region.
   */
  readonly hedgeSameRegion?: boolean;
  readonly onEvent?: (event: RegionEvent) => void;
}

const BUDGET_BURST = 10;
/** Equals the number of consecutive failures that open a circuit. */
const RETRY_RESERVE = 5;

/** @param regions at least one, with distinct ids */
export function createRegionPool(
  regions: readonly PooledRegion[],
  options: RegionPoolOptions,
): RegionPool {
  const pool = createPoolContext(regions, options);
  const { states } = pool;
  const call = <Request extends RegionCall, Answer>(pooledCall: PooledCall<Request, Answer>) =>
    callPool(pool, pooledCall);

  async function isAnyReady(isReady: (client: RegionClient) => Promise<boolean>): Promise<boolean> {
    const checks = states.map(async ({ region }) =>
      (await isReady(region.client)) ? true : await Promise.reject(new Error("not ready")),
    );
    return await Promise.any(checks).catch(() => false);
  }

  return {
    infer: (request, callerSignal) =>
      call({
        request,
        latencyKey: latencyKeyOf(request),
        callerSignal,
        send: (client, ...rest) => client.infer(...rest),
      }),
    resume: (request, callerSignal) =>
      call({
        request,
        latencyKey: `${latencyKeyOf(request)} resumed`,
        callerSignal,
        send: (client, ...rest) => client.resume(...rest),
      }),
    // The body is in memory, so it can be sent twice. The answer is chosen when it begins; a later truncation is not retried.
    forward: (request, callerSignal) =>
      call({
        request,
        latencyKey: latencyKeyOf(request),
        callerSignal,
        send: (client, ...rest) => client.forward(...rest),
        classifyFailure: ({ status }) => classifyRegionStatus(status),
      }),
    isReady: (signal) => isAnyReady((client) => client.isReady(signal)),
    isModelReady: (model, version, signal) =>
      isAnyReady((client) => client.isModelReady(model, version, signal)),
    listRegions: (place) => describeRegions(states, place),
    latencyQuantileMs(quantile, tier) {
      const latencyKey = latencyKeyOf(tier);
      const measured = usableRegions(pool).flatMap(({ latencies }) =>
        latencies.hasRecentCall(latencyKey)
          ? (latencies.quantileMs(quantile, MIN_QUANTILE_SAMPLES, latencyKey) ?? [])
          : [],
      );
      return measured.length === 0 ? undefined : Math.min(...measured);
    },
    isSaturated() {
      const usable = usableRegions(pool);
      return usable.length > 0 && usable.every((state) => state.isSaturated);
    },
  };
}

function createPoolContext(
  regions: readonly PooledRegion[],
  {
    clock,
    random = Math.random,
    extraCallRatio = 0.03,
    hedgeSameRegion = true,
    onEvent = () => {},
  }: RegionPoolOptions,
): PoolContext {
  const serviceTimes = createMovingAverages(clock);
  const states = regions.map((region) =>
    createRegionState(region, {
      clock,
      random,
      serviceTimes,
      onCircuitChange: (state) => onEvent({ kind: "circuit", region: region.id, state }),
    }),
  );
  const budget = createRetryBudget({
    ratio: extraCallRatio,
    burst: BUDGET_BURST,
    retryReserve: RETRY_RESERVE,
  });
  return { clock, random, extraCallRatio, hedgeSameRegion, onEvent, states, budget };
}

/** Returns the key of calls that take about the same time. A forwarded call names its tier only in its body. */
const latencyKeyOf = ({
  model,
  tier = "",
}: {
  readonly model: string;
  readonly tier?: string;
}): string => `${model} ${tier}`;
