// One call of one region, which hears how it ended.

import { EdgeTierError } from "../../core/errors.ts";
import {
  type RegionCall,
  type RegionClient,
  type RegionFailure,
  classifyRegionError,
} from "../region-client.ts";
import type { ExtraCallKind } from "./retry-budget.ts";
import type { RegionState } from "./region-state.ts";

/** What a client of the pool wants to know, of whichever region. */
export interface PooledCall<Request extends RegionCall, Answer> {
  readonly request: Request;
  /** Of calls that take about as long. */
  readonly latencyKey: string;
  readonly callerSignal: AbortSignal | undefined;
  readonly send: (client: RegionClient, request: Request, signal: AbortSignal) => Promise<Answer>;
  /** Of an answer that is one of these all the same. */
  readonly classifyFailure?: (answer: Answer) => RegionFailure | undefined;
}

export interface Attempt<Answer> {
  /** Never rejects. */
  readonly outcome: Promise<AttemptOutcome<Answer>>;
  /** Nobody waits for it any more. */
  cancel(): void;
}

export interface AttemptOutcome<Answer> {
  /** Absent for an answer, and for a refusal, which others would repeat. */
  readonly failure: RegionFailure | undefined;
  /** @returns the answer @throws what it failed with */
  readonly unwrap: () => Answer;
}

/** `ok`, `refused` (4xx), how it failed, or `other`, which tells nothing of the region; `abandoned` where nobody waited for it any more. */
export type AttemptResult = "ok" | "refused" | RegionFailure | "abandoned" | "other";
const RESULT_LABELS = { answered: "ok", rejected: "refused", inconclusive: "other" } as const;

export interface AttemptOptions {
  readonly timeoutMs: number;
  /** Of a call that the region has not answered yet: its failure is not held against the region a second time. */
  readonly isSameRegion: boolean;
  readonly trigger: "first" | ExtraCallKind;
  readonly onEnd: (result: AttemptResult) => void;
}

/** @returns undefined where the region's breaker lets none through */
export function startAttempt<Request extends RegionCall, Answer>(
  state: RegionState,
  question: PooledCall<Request, Answer>,
  { timeoutMs, isSameRegion: isRepeat, trigger: why, onEnd }: AttemptOptions,
): Attempt<Answer> | undefined {
  const {
    request,
    latencyKey: kind,
    callerSignal: caller,
    send,
    classifyFailure: failureOf = () => undefined,
  } = question;
  const end = state.tryStartCall(kind, request.clientLocation, timeoutMs);
  if (end === undefined) return undefined;
  const span = request.span?.startChild(
    "region call",
    { "edgetier.region": state.region.id, "edgetier.attempt": why },
    { kind: "client" },
  );
  const own = new AbortController();
  const signal = caller === undefined ? own.signal : AbortSignal.any([caller, own.signal]);

  async function run(): Promise<AttemptOutcome<Answer>> {
    try {
      const answer = await send(
        state.region.client,
        { ...request, timeoutMs, onLoadReport: state.recordLoadReport, ...(span && { span }) },
        signal,
      );
      return close(failureOf(answer), "answered", () => answer);
    } catch (error) {
      const isRefusal = error instanceof EdgeTierError && error.code === "region_refused";
      return close(classifyRegionError(error), isRefusal ? "rejected" : "inconclusive", () => {
        throw error;
      });
    }
  }

  function close(
    failure: RegionFailure | undefined,
    otherwise: keyof typeof RESULT_LABELS,
    settle: () => Answer,
  ): AttemptOutcome<Answer> {
    const result = own.signal.aborted ? "abandoned" : (failure ?? RESULT_LABELS[otherwise]);
    span?.setAttributes({ "edgetier.result": result });
    span?.end(own.signal.aborted ? undefined : failure);
    if (failure === "busy") state.recordBusy();
    onEnd(result);
    if (own.signal.aborted) end?.("abandoned");
    else if (failure === undefined) end?.(otherwise);
    else if (isRepeat) end?.("inconclusive");
    else end?.(failure === "timed_out" ? "timed_out" : "failed");
    return { failure, unwrap: settle };
  }

  return { outcome: run(), cancel: () => own.abort() };
}
