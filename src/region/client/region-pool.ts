// Several regions as one RegionClient: the one that is expected to answer first is asked, and within a budget another one where
// it is late or has failed. See region-state.ts for what an isolate knows, and what not.

import { regionErrors } from "../errors.ts";
import type { Clock } from "../../core/clock.ts";
import type { Place } from "../../core/place.ts";
import {
  regionFailureOfStatus,
  type RegionCall,
  type RegionClient,
  type RegionFailure,
} from "../region-client.ts";
import { type Attempt, type AttemptResult, type Question, startAttempt } from "./attempt.ts";
import { createCallBudget, type ExtraCall } from "./call-budget.ts";
import { chooseRegion } from "./choose-region.ts";
import type { CircuitKind } from "./circuit-breaker.ts";
import { firstGood } from "./first-good.ts";
import { createRecentMeans } from "./recent-means.ts";
import { createRegionState, type PooledRegion, type RegionState } from "./region-state.ts";
import { regionsSeen, type RegionSeen } from "./regions-seen.ts";

type Measured = "latencyMs" | "isSaturated";

export interface RegionPool
  extends Omit<RegionClient, Measured>, Required<Pick<RegionClient, Measured>> {
  /** The nearest to `place` first; those whose place is unknown last. */
  regions(place: Place | undefined): RegionSeen[];
}

export interface RegionPoolOptions {
  readonly clock: Clock;
  /** From 0 to 1; choice and jitter. */
  readonly random?: () => number;
  /** Hedges and retries for each call; 0 forbids them. */
  readonly extraCallsShare?: number;
  /** Whether a late call may be hedged in its own region where there is no other: worth it where a call is slow and not the region. */
  readonly hedgeSameRegion?: boolean;
  readonly onEvent?: (event: RegionEvent) => void;
}

export type RegionEvent =
  | { readonly event: "circuit"; readonly region: string; readonly to: CircuitKind }
  /** Of every attempt. */
  | {
      readonly event: "call";
      readonly region: string;
      readonly result: AttemptResult;
      readonly tookMs: number;
    }
  /** `sent`, and `won` where its answer counts; `over_budget` where one was wanted. */
  | {
      readonly event: "extra_call";
      readonly region: string;
      readonly kind: ExtraCall;
      readonly result: "sent" | "won" | "over_budget";
    };

const BURST = 10;
/** As many failures in a row open a circuit. */
const RESERVE = 5;
/** Dean and Barroso's, which makes 5 % more calls. */
const HEDGE_QUANTILE = 0.95;
/** Of the budget, that hedges may take on average: a lower quantile would spend it on calls that are hardly late, and have none for the slow ones. */
const HEDGED_SHARE = 0.8;
const MIN_HEDGE_MS = 3;
/** Times what is expected, until there are enough samples for a quantile. */
const SEEDED_HEDGE = 3;
const ENOUGH_SAMPLES = 30;
/** What another region may not repeat, and has cost no region a run. All calls are inferences, which may be made twice. */
const RETRIED = new Set<RegionFailure>(["unreached", "busy", "unreadable"]);

/** @param regions one at least, of different ids */
export function createRegionPool(
  regions: readonly PooledRegion[],
  options: RegionPoolOptions,
): RegionPool {
  const {
    clock,
    random = Math.random,
    extraCallsShare = 0.03,
    hedgeSameRegion = true,
    onEvent = () => {},
  } = options;
  const services = createRecentMeans(clock);
  const states = regions.map((region) =>
    createRegionState(region, {
      clock,
      random,
      services,
      onCircuit: (to) => onEvent({ event: "circuit", region: region.id, to }),
    }),
  );
  const usable = () => states.filter(({ breaker, isReady }) => breaker.lets && isReady);
  const budget = createCallBudget({ share: extraCallsShare, burst: BURST, reserve: RESERVE });
  const hedgeQuantile = Math.max(HEDGE_QUANTILE, 1 - HEDGED_SHARE * extraCallsShare);

  /** One client's call, of which there may be several attempts. @throws region_unavailable, and as the region's client */
  async function call<Request extends RegionCall, Answer>(
    question: Question<Request, Answer>,
  ): Promise<Answer> {
    const { request, kind, caller } = question;
    const startedAtMs = clock.now();
    const leftMs = () => request.timeoutMs - (clock.now() - startedAtMs);
    const expectedMs = (state: RegionState) => state.expectedMs(kind, request.place);
    const choose = (among: readonly RegionState[]) =>
      chooseRegion(
        among.map((state) => ({ state, expectedMs: expectedMs(state), inFlight: state.inFlight })),
        random,
      )?.state;
    const asked = new Set<RegionState>();
    const extras = new Map<
      Attempt<Answer>,
      { readonly kind: ExtraCall; readonly region: string }
    >();

    function start(
      state: RegionState,
      why: "first" | ExtraCall = "first",
    ): Attempt<Answer> | undefined {
      const isRepeat = asked.has(state);
      asked.add(state);
      const beganAtMs = clock.now();
      const onEnd = (result: AttemptResult) =>
        onEvent({
          event: "call",
          region: state.region.id,
          result,
          tookMs: clock.now() - beganAtMs,
        });
      return startAttempt(state, question, { timeoutMs: leftMs(), isRepeat, why, onEnd });
    }

    function startExtra(
      kind: ExtraCall,
      state: RegionState | undefined,
    ): Attempt<Answer> | undefined {
      if (state === undefined || caller?.aborted === true || leftMs() <= expectedMs(state))
        return undefined;
      const isPaid = budget.spend(kind);
      const extra = { kind, region: state.region.id };
      onEvent({ event: "extra_call", ...extra, result: isPaid ? "sent" : "over_budget" });
      const attempt = isPaid ? start(state, kind) : undefined;
      if (attempt !== undefined) extras.set(attempt, extra);
      return attempt;
    }

    if (request.waitUntil !== undefined)
      for (const state of states) state.checkIfDue(request.waitUntil);
    budget.earn();
    const ready = usable();
    const chosen = choose(ready.length > 0 ? ready : states.filter(({ breaker }) => breaker.lets));
    const first = chosen && start(chosen);
    // No region is asked through an open circuit, not even when all are open: it would only be waited for in vain.
    if (chosen === undefined || first === undefined)
      throw regionErrors.noRegionOpen(Math.min(...states.map(({ breaker }) => breaker.openMs)));

    const another = () =>
      choose(
        states.filter(
          (state) => !asked.has(state) && state.isReady && state.breaker.kind === "closed",
        ),
      );
    const same = () => (hedgeSameRegion && chosen.breaker.kind === "closed" ? chosen : undefined);
    const { attempt, ended } = await firstGood(first, {
      clock,
      hedgeAfterMs: hedgeAfterMs(chosen, kind, expectedMs(chosen), request.timeoutMs),
      hedge: () => startExtra("hedge", another() ?? same()),
      retry: (failure) => (RETRIED.has(failure) ? startExtra("retry", another()) : undefined),
    });
    const extra = extras.get(attempt);
    if (extra !== undefined && ended.failure === undefined)
      onEvent({ event: "extra_call", ...extra, result: "won" });
    return ended.settle();
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
      state.latencies.quantileMs(hedgeQuantile, ENOUGH_SAMPLES, kind) ?? SEEDED_HEDGE * expectedMs,
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
        kind: kindOf(request),
        caller,
        send: (client, ...rest) => client.infer(...rest),
      }),
    resume: (request, caller) =>
      call({
        request,
        kind: `${kindOf(request)} resumed`,
        caller,
        send: (client, ...rest) => client.resume(...rest),
      }),
    // Its body is whole in memory, so it can be sent twice. The answer is chosen when it begins: what breaks off later is not asked for again.
    forward: (request, caller) =>
      call({
        request,
        kind: kindOf(request),
        caller,
        send: (client, ...rest) => client.forward(...rest),
        failureOf: ({ status }) => regionFailureOfStatus(status),
      }),
    ready: (signal) => anyOf((client) => client.ready(signal)),
    modelReady: (model, version, signal) =>
      anyOf((client) => client.modelReady(model, version, signal)),
    regions: (place) => regionsSeen(states, place),
    latencyMs(quantile, of) {
      const kind = kindOf(of);
      const measured = usable().flatMap(({ latencies }) =>
        latencies.isRenewed(kind)
          ? (latencies.quantileMs(quantile, ENOUGH_SAMPLES, kind) ?? [])
          : [],
      );
      return measured.length === 0 ? undefined : Math.min(...measured);
    },
    isSaturated: () => usable().length > 0 && usable().every((state) => state.isSaturated),
  };
}

/** Of calls that take about as long; a forwarded one names no tier outside its body. */
const kindOf = ({ model, tier = "" }: { readonly model: string; readonly tier?: string }): string =>
  `${model} ${tier}`;
