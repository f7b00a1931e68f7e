// One call to one region: reports its outcome to the region's state.

import { EdgeTierError } from "../../core/errors.ts";
import {
  type RegionCall,
  type RegionClient,
  type RegionFailure,
  classifyRegionError,
} from "../region-client.ts";
import type { RegionState } from "./region-state.ts";
import type { ExtraCallKind } from "./retry-budget.ts";

/** A call to the pool, independent of the region that will answer it. */
export interface PooledCall<Request extends RegionCall, Answer> {
  readonly request: Request;
  /** Calls with the same key are expected to take about the same time. */
  readonly latencyKey: string;
  readonly callerSignal: AbortSignal | undefined;
  readonly send: (client: RegionClient, request: Request, signal: AbortSignal) => Promise<Answer>;
  /** Detects a failure in a response that arrived completely. */
  readonly classifyFailure?: (answer: Answer) => RegionFailure | undefined;
}

export interface Attempt<Answer> {
  /** Never rejects. */
  readonly outcome: Promise<AttemptOutcome<Answer>>;
  /** Abandons the attempt when its answer is no longer needed. */
  cancel(): void;
}

export interface AttemptOutcome<Answer> {
  /** Absent for an answer and for a rejection, which other regions would repeat. */
  readonly failure: RegionFailure | undefined;
  /** @returns the answer @throws the attempt's error */
  readonly unwrap: () => Answer;
}

/**
 * Result of an attempt: `ok`, `refused` (4xx), the failure, or `other` if the result says nothing about the region.
 * `abandoned` means that the answer was no longer needed.
 */
export type AttemptResult = "ok" | "refused" | RegionFailure | "abandoned" | "other";
const RESULT_LABELS = { answered: "ok", rejected: "refused", inconclusive: "other" } as const;

export interface AttemptOptions {
  readonly timeoutMs: number;
  /** Whether the region already has an unanswered attempt of this call. A failure then counts only once against it. */
  readonly isSameRegion: boolean;
  readonly trigger: "first" | ExtraCallKind;
  readonly onEnd: (result: AttemptResult) => void;
}

/** @returns undefined if the region's circuit breaker blocks the call */
export function startAttempt<Request extends RegionCall, Answer>(
  state: RegionState,
  pooledCall: PooledCall<Request, Answer>,
  { timeoutMs, isSameRegion, trigger, onEnd }: AttemptOptions,
): Attempt<Answer> | undefined {
  const { request, latencyKey, callerSignal, send, classifyFailure = () => undefined } = pooledCall;
  const endCall = state.tryStartCall(latencyKey, request.clientLocation, timeoutMs);
  if (endCall === undefined) return undefined;
  const span = request.span?.startChild(
    "region call",
    { "edgetier.region": state.region.id, "edgetier.attempt": trigger },
    { kind: "client" },
  );
  const abandonment = new AbortController();
  const signal =
    callerSignal === undefined
      ? abandonment.signal
      : AbortSignal.any([callerSignal, abandonment.signal]);

  async function run(): Promise<AttemptOutcome<Answer>> {
    try {
      const answer = await send(
        state.region.client,
        { ...request, timeoutMs, onLoadReport: state.recordLoadReport, ...(span && { span }) },
        signal,
      );
      return close(classifyFailure(answer), "answered", () => answer);
    } catch (error) {
      const isRejection = error instanceof EdgeTierError && error.code === "region_refused";
      return close(classifyRegionError(error), isRejection ? "rejected" : "inconclusive", () => {
        throw error;
      });
    }
  }

  function close(
    failure: RegionFailure | undefined,
    outcomeWithoutFailure: keyof typeof RESULT_LABELS,
    unwrap: () => Answer,
  ): AttemptOutcome<Answer> {
    const isAbandoned = abandonment.signal.aborted;
    const result = isAbandoned ? "abandoned" : (failure ?? RESULT_LABELS[outcomeWithoutFailure]);
    span?.setAttributes({ "edgetier.result": result });
    span?.end(isAbandoned ? undefined : failure);
    if (failure === "busy") state.recordBusy();
    onEnd(result);
    if (isAbandoned) endCall?.("abandoned");
    else if (failure === undefined) endCall?.(outcomeWithoutFailure);
    else if (isSameRegion) endCall?.("inconclusive");
    else endCall?.(failure === "timed_out" ? "timed_out" : "failed");
    return { failure, unwrap };
  }

  return { outcome: run(), cancel: () => abandonment.abort() };
}
