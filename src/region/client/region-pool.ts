// Several regions as one RegionClient: the one that is expected to answer first is asked, and within a budget another one where
// it is late or has failed. See region-state.ts for what an isolate knows, and what not.

import { regionErrors } from "../errors.ts";
import type { Clock } from "../../core/clock.ts";
import type { GeoPoint } from "../../core/geo.ts";
import {
  classifyRegionStatus,
  type RegionCall,
  type RegionClient,
  type RegionFailure,
} from "../region-client.ts";
import { type Attempt, type AttemptResult, type PooledCall, startAttempt } from "./attempt.ts";
import { createRetryBudget, type ExtraCallKind } from "./retry-budget.ts";
import { chooseRegion } from "./choose-region.ts";
import type { CircuitState } from "./circuit-breaker.ts";
import { hedgedCall } from "./hedged-call.ts";
import { createMovingAverages } from "./moving-averages.ts";
import { createRegionState, type PooledRegion, type RegionState } from "./region-state.ts";
import { describeRegions, type RegionStatus } from "./region-status.ts";

type LoadSignals = "latencyQuantileMs" | "isSaturated";

export interface RegionPool
  extends Omit<RegionClient, LoadSignals>, Required<Pick<RegionClient, LoadSignals>> {
  /** The nearest to `place` first; those whose place is unknown last. */
  listRegions(place: GeoPoint | undefined): RegionStatus[];
}

export interface RegionPoolOptions {
  readonly clock: Clock;
  /** From 0 to 1; choice and jitter. */
  readonly random?: () => number;
  /** Hedges and retries for each call; 0 forbids them. */
  readonly extraCallRatio?: number;
  /** Whether a late call may be hedged in its own region where there is no other: worth it where a call is slow and not the region. */
  readonly hedgeSameRegion?: boolean;
  readonly onEvent?: (event: RegionEvent) => void;
}

export type RegionEvent =
  | { readonly kind: "circuit"; readonly region: string; readonly state: CircuitState }
  /** Of every attempt. */
  | {
      readonly kind: "call";
      readonly region: string;
      readonly result: AttemptResult;
      readonly durationMs: number;
    }
  /** `sent`, and `won` where its answer counts; `over_budget` where one was wanted. */
  | {
      readonly kind: "extra_call";
      readonly region: string;
      readonly reason: ExtraCallKind;
      readonly result: "sent" | "won" | "over_budget";
    };

const BUDGET_BURST = 10;
/** As many failures in a row open a circuit. */
const RETRY_RESERVE = 5;
/** Dean and Barroso's, which makes 5 % more calls. */
const HEDGE_QUANTILE = 0.95;
/** Of the budget, that hedges may take on average: a lower quantile would spend it on calls that are hardly late, and have none for the slow ones. */
const HEDGE_BUDGET_SHARE = 0.8;
const MIN_HEDGE_MS = 3;
/** Times what is expected, until there are enough samples for a quantile. */
const INITIAL_HEDGE_FACTOR = 3;
const MIN_QUANTILE_SAMPLES = 30;
/** What another region may not repeat, and has cost no region a run. All calls are inferences, which may be made twice. */
const RETRYABLE_FAILURES = new Set<RegionFailure>(["unreached", "busy", "unreadable"]);

/** @param regions one at least, of different ids */
export function createRegionPool(
  regions: readonly PooledRegion[],
  options: RegionPoolOptions,
): RegionPool {
  const {
    clock,
    random = Math.random,
    extraCallRatio: extraCallsShare = 0.03,
    hedgeSameRegion = true,
    onEvent = () => {},
  } = options;
  const services = createMovingAverages(clock);
  const states = regions.map((region) =>
    createRegionState(region, {
      clock,
      random,
      serviceTimes: services,
      onCircuitChange: (to) => onEvent({ kind: "circuit", region: region.id, state: to }),
    }),
  );
  const usable = () => states.filter(({ breaker, isReady }) => breaker.allowsCalls && isReady);
  const budget = createRetryBudget({
    ratio: extraCallsShare,
    burst: BUDGET_BURST,
    retryReserve: RETRY_RESERVE,
  });
  const hedgeQuantile = Math.max(HEDGE_QUANTILE, 1 - HEDGE_BUDGET_SHARE * extraCallsShare);

  /** One client's call, of which there may be several attempts. @throws region_unavailable, and as the region's client */
  async function call<Request extends RegionCall, Answer>(
    question: PooledCall<Request, Answer>,
  ): Promise<Answer> {
    const { request, latencyKey: kind, callerSignal: caller } = question;
    const startedAtMs = clock.now();
    const leftMs = () => request.timeoutMs - (clock.now() - startedAtMs);
    const expectedMs = (state: RegionState) => state.expectedMs(kind, request.clientLocation);
    const choose = (among: readonly RegionState[]) =>
      chooseRegion(
        among.map((state) => ({ state, expectedMs: expectedMs(state), inFlight: state.inFlight })),
        random,
      )?.state;
    const asked = new Set<RegionState>();
    const extras = new Map<
      Attempt<Answer>,
      { readonly reason: ExtraCallKind; readonly region: string }
    >();

    function start(
      state: RegionState,
      why: "first" | ExtraCallKind = "first",
    ): Attempt<Answer> | undefined {
      const isRepeat = asked.has(state);
      asked.add(state);
      const beganAtMs = clock.now();
      const onEnd = (result: AttemptResult) =>
        onEvent({
          kind: "call",
          region: state.region.id,
          result,
          durationMs: clock.now() - beganAtMs,
        });
      return startAttempt(state, question, {
        timeoutMs: leftMs(),
        isSameRegion: isRepeat,
        trigger: why,
        onEnd,
      });
    }

    function startExtra(
      reason: ExtraCallKind,
      state: RegionState | undefined,
    ): Attempt<Answer> | undefined {
      if (state === undefined || caller?.aborted === true || leftMs() <= expectedMs(state))
        return undefined;
      const isPaid = budget.tryWithdraw(reason);
      const extra = { reason, region: state.region.id };
      onEvent({ kind: "extra_call", ...extra, result: isPaid ? "sent" : "over_budget" });
      const attempt = isPaid ? start(state, reason) : undefined;
      if (attempt !== undefined) extras.set(attempt, extra);
      return attempt;
    }

    if (request.waitUntil !== undefined)
      for (const state of states) state.checkHealthIfDue(request.waitUntil);
    budget.deposit();
    const ready = usable();
    const chosen = choose(
      ready.length > 0 ? ready : states.filter(({ breaker }) => breaker.allowsCalls),
    );
    const first = chosen && start(chosen);
    // No region is asked through an open circuit, not even when all are open: it would only be waited for in vain.
    if (chosen === undefined || first === undefined)
      throw regionErrors.noRegionOpen(
        Math.min(...states.map(({ breaker }) => breaker.remainingOpenMs)),
      );

    const another = () =>
      choose(
        states.filter(
          (state) => !asked.has(state) && state.isReady && state.breaker.state === "closed",
        ),
      );
    const same = () => (hedgeSameRegion && chosen.breaker.state === "closed" ? chosen : undefined);
    const { attempt, ended } = await hedgedCall(first, {
      clock,
      hedgeAfterMs: hedgeAfterMs(chosen, kind, expectedMs(chosen), request.timeoutMs),
      startHedge: () => startExtra("hedge", another() ?? same()),
      startRetry: (failure) =>
        RETRYABLE_FAILURES.has(failure) ? startExtra("retry", another()) : undefined,
    });
    const extra = extras.get(attempt);
    if (extra !== undefined && ended.failure === undefined)
      onEvent({ kind: "extra_call", ...extra, result: "won" });
    return ended.unwrap();
  }

  function hedgeAfterMs(
    state: RegionState,
    kind: string,
    expectedMs: number,
    timeoutMs: number,
  ): number | undefined {
    if (extraCallsShare === 0) return undefined;
    const afterMs = Math.max(
      MIN_HEDGE_MS,
      state.latencies.quantileMs(hedgeQuantile, MIN_QUANTILE_SAMPLES, kind) ??
        INITIAL_HEDGE_FACTOR * expectedMs,
    );
    return afterMs < timeoutMs ? afterMs : undefined;
  }

  const anyOf = async (ask: (client: RegionClient) => Promise<boolean>): Promise<boolean> => {
    const yes = states.map(async ({ region }) =>
      (await ask(region.client)) ? true : await Promise.reject(new Error("not ready")),
    );
    return await Promise.any(yes).catch(() => false);
  };

  return {
    infer: (request, caller) =>
      call({
        request,
        latencyKey: latencyKeyOf(request),
        callerSignal: caller,
        send: (client, ...rest) => client.infer(...rest),
      }),
    resume: (request, caller) =>
      call({
        request,
        latencyKey: `${latencyKeyOf(request)} resumed`,
        callerSignal: caller,
        send: (client, ...rest) => client.resume(...rest),
      }),
    // Its body is whole in memory, so it can be sent twice. The answer is chosen when it begins: what breaks off later is not asked for again.
    forward: (request, caller) =>
      call({
        request,
        latencyKey: latencyKeyOf(request),
        callerSignal: caller,
        send: (client, ...rest) => client.forward(...rest),
        classifyFailure: ({ status }) => classifyRegionStatus(status),
      }),
    isReady: (signal) => anyOf((client) => client.isReady(signal)),
    isModelReady: (model, version, signal) =>
      anyOf((client) => client.isModelReady(model, version, signal)),
    listRegions: (place) => describeRegions(states, place),
    latencyQuantileMs(quantile, of) {
      const kind = latencyKeyOf(of);
      const measured = usable().flatMap(({ latencies }) =>
        latencies.hasRecentCall(kind)
          ? (latencies.quantileMs(quantile, MIN_QUANTILE_SAMPLES, kind) ?? [])
          : [],
      );
      return measured.length === 0 ? undefined : Math.min(...measured);
    },
    isSaturated: () => usable().length > 0 && usable().every((state) => state.isSaturated),
  };
}

/** Of calls that take about as long; a forwarded one names no tier outside its body. */
const latencyKeyOf = ({
  model,
  tier = "",
}: {
  readonly model: string;
  readonly tier?: string;
}): string => `${model} ${tier}`;
