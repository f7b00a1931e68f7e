// One client's call to the region pool: attempts it in the best region, and hedges or retries it elsewhere within a budget.

import type { Clock } from "../../core/clock.ts";
import { regionErrors } from "../errors.ts";
import type { RegionCall, RegionFailure } from "../region-client.ts";
import { type Attempt, type AttemptResult, type PooledCall, startAttempt } from "./attempt.ts";
import { chooseRegion } from "./choose-region.ts";
import type { CircuitState } from "./circuit-breaker.ts";
import { hedgedCall } from "./hedged-call.ts";
import type { RegionState } from "./region-state.ts";
import type { ExtraCallKind, RetryBudget } from "./retry-budget.ts";

export type RegionEvent =
  | { readonly kind: "circuit"; readonly region: string; readonly state: CircuitState }
  /** Emitted for every attempt. */
  | {
      readonly kind: "call";
      readonly region: string;
      readonly result: AttemptResult;
      readonly durationMs: number;
    }
  /** `sent`, then `won` if its answer counts; `over_budget` if the budget denied it. */
  | {
      readonly kind: "extra_call";
      readonly region: string;
      readonly reason: ExtraCallKind;
      readonly result: "sent" | "won" | "over_budget";
    };

export interface PoolContext {
  readonly clock: Clock;
  readonly random: () => number;
  readonly extraCallRatio: number;
  readonly hedgeSameRegion: boolean;
  readonly onEvent: (event: RegionEvent) => void;
  readonly states: readonly RegionState[];
  readonly budget: RetryBudget;
}

/** Quantile of Dean and Barroso, which adds 5 % of calls. */
const HEDGE_QUANTILE = 0.95;
/**
 * Share of the budget that hedges may use on average. A lower quantile would spend the budget on calls that are hardly late
 * and leave nothing for the slow ones.
 */
const HEDGE_BUDGET_SHARE = 0.8;
const MIN_HEDGE_MS = 3;
/** Multiple of the expected latency after which a call is hedged, until there are enough samples for a quantile. */
const INITIAL_HEDGE_FACTOR = 3;
export const MIN_QUANTILE_SAMPLES = 30;
/**
 * Failures that another region need not repeat and that cost no region a run. All calls are inferences, so sending them
 * twice is safe.
 */
const RETRYABLE_FAILURES = new Set<RegionFailure>(["unreached", "busy", "unreadable"]);

/** Returns the regions that are ready and whose circuit breaker allows calls. */
export const usableRegions = ({ states }: PoolContext): readonly RegionState[] =>
  states.filter(({ breaker, isReady }) => breaker.allowsCalls && isReady);

/** Makes one client's call, in one or more attempts. @throws region_unavailable, and as the region's client */
export async function callPool<Request extends RegionCall, Answer>(
  pool: PoolContext,
  pooledCall: PooledCall<Request, Answer>,
): Promise<Answer> {
  const { clock, states, budget, hedgeSameRegion } = pool;
  const { request, latencyKey } = pooledCall;
  const attempts = createCallAttempts(pool, pooledCall);
  if (request.waitUntil !== undefined)
    for (const state of states) state.checkHealthIfDue(request.waitUntil);
  budget.deposit();
  const ready = usableRegions(pool);
  const chosen = attempts.choose(
    ready.length > 0 ? ready : states.filter(({ breaker }) => breaker.allowsCalls),
  );
  const first = chosen && attempts.start(chosen, "first");
  // No region is called through an open circuit, even if all are open: the client would only wait in vain.
  if (chosen === undefined || first === undefined)
    throw regionErrors.noRegionOpen(
      Math.min(...states.map(({ breaker }) => breaker.remainingOpenMs)),
    );

  const sameRegion = () =>
    hedgeSameRegion && chosen.breaker.state === "closed" ? chosen : undefined;
  const { attempt, ended } = await hedgedCall(first, {
    clock,
    hedgeAfterMs: computeHedgeDelayMs(pool, chosen, {
      latencyKey,
      expectedMs: attempts.expectedMs(chosen),
      timeoutMs: request.timeoutMs,
    }),
    startHedge: () => attempts.startExtra("hedge", attempts.chooseUntried() ?? sameRegion()),
    startRetry: (failure) =>
      RETRYABLE_FAILURES.has(failure)
        ? attempts.startExtra("retry", attempts.chooseUntried())
        : undefined,
  });
  if (ended.failure === undefined) attempts.reportWin(attempt);
  return ended.unwrap();
}

interface ExtraCall {
  readonly reason: ExtraCallKind;
  readonly region: string;
}

/** Starts the attempts of one call, and tracks the regions that were tried. */
function createCallAttempts<Request extends RegionCall, Answer>(
  pool: PoolContext,
  pooledCall: PooledCall<Request, Answer>,
) {
  const { clock, random, onEvent, states, budget } = pool;
  const { request, latencyKey, callerSignal } = pooledCall;
  const startedAtMs = clock.now();
  const tried = new Set<RegionState>();
  const extras = new Map<Attempt<Answer>, ExtraCall>();
  const remainingMs = () => request.timeoutMs - (clock.now() - startedAtMs);
  const expectedMs = (state: RegionState) => state.expectedMs(latencyKey, request.clientLocation);

  const choose = (regions: readonly RegionState[]): RegionState | undefined =>
    chooseRegion(
      regions.map((state) => ({ state, expectedMs: expectedMs(state), inFlight: state.inFlight })),
      random,
    )?.state;

  function start(
    state: RegionState,
    trigger: "first" | ExtraCallKind,
  ): Attempt<Answer> | undefined {
    const isSameRegion = tried.has(state);
    tried.add(state);
    const region = state.region.id;
    const attemptedAtMs = clock.now();
    return startAttempt(state, pooledCall, {
      timeoutMs: remainingMs(),
      isSameRegion,
      trigger,
      onEnd: (result) =>
        onEvent({ kind: "call", region, result, durationMs: clock.now() - attemptedAtMs }),
    });
  }

  return {
    expectedMs,
    choose,
    start,
    chooseUntried: () =>
      choose(
        states.filter(
          (state) => !tried.has(state) && state.isReady && state.breaker.state === "closed",
        ),
      ),
    /** Starts a hedge or a retry, if remaining time and budget allow it. */
    startExtra(reason: ExtraCallKind, state: RegionState | undefined): Attempt<Answer> | undefined {
      if (state === undefined || callerSignal?.aborted === true) return undefined;
      if (remainingMs() <= expectedMs(state)) return undefined;
      const isWithinBudget = budget.tryWithdraw(reason);
      const extra = { reason, region: state.region.id };
      onEvent({ kind: "extra_call", ...extra, result: isWithinBudget ? "sent" : "over_budget" });
      const attempt = isWithinBudget ? start(state, reason) : undefined;
      if (attempt !== undefined) extras.set(attempt, extra);
      return attempt;
    },
    reportWin(attempt: Attempt<Answer>): void {
      const extra = extras.get(attempt);
      if (extra !== undefined) onEvent({ kind: "extra_call", ...extra, result: "won" });
    },
  };
}

interface HedgeTiming {
  readonly latencyKey: string;
  readonly expectedMs: number;
  readonly timeoutMs: number;
}

function computeHedgeDelayMs(
  { extraCallRatio }: PoolContext,
  { latencies }: RegionState,
  { latencyKey, expectedMs, timeoutMs }: HedgeTiming,
): number | undefined {
  if (extraCallRatio === 0) return undefined;
  const quantile = Math.max(HEDGE_QUANTILE, 1 - HEDGE_BUDGET_SHARE * extraCallRatio);
  const delayMs = Math.max(
    MIN_HEDGE_MS,
    latencies.quantileMs(quantile, MIN_QUANTILE_SAMPLES, latencyKey) ??
      INITIAL_HEDGE_FACTOR * expectedMs,
  );
  return delayMs < timeoutMs ? delayMs : undefined;
}
