// How accepted work gets onto a session: the port. batching/ lets works share runs.

import type { Span } from "../../core/tracing.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { BatchingConfig } from "../../registry/serving-config.ts";
import type { Session } from "../../runtime/runtime.ts";
import type { RowPadding } from "../../tasks/task.ts";
import type { DispatchReason } from "./batching/dispatch-policy.ts";

/** Whose work it is: what logs and metrics call it. */
export interface TierRef {
  readonly model: string;
  readonly version: number;
  readonly tier: string;
}

export interface ExecutionRequest {
  readonly session: Session;
  readonly tier: TierRef;
  /** How the tier's works share runs; what it does not say is the executor's default. That of a session's first work counts. */
  readonly batching?: BatchingConfig | undefined;
  /** The first dimension of each is the batch: its rows. */
  readonly inputs: NamedTensors;
  /** Milliseconds since the epoch from which on nobody wants the answer. */
  readonly expiresAtMs?: number | undefined;
  /** Aborted when the client has left. */
  readonly signal?: AbortSignal | undefined;
  /** From 1, the highest. */
  readonly priority?: number | undefined;
  /** How the inputs were padded, if they may be padded further to share a run. */
  readonly padding?: RowPadding | undefined;
  /** What the model is meant to answer within, from its coming here on: no wait for company goes beyond it. */
  readonly maxLatencyMs?: number | undefined;
  /** Of the request. */
  readonly span?: Span;
}

/** One run of a session, over. The requests of a shared one that failed may have runs of their own after it. */
export interface BatchRun {
  readonly tier: TierRef;
  /** Requests that shared it. */
  readonly requestCount: number;
  readonly rows: number;
  readonly reason: DispatchReason;
  /** What each of them waited, the longest first. */
  readonly queueTimesMs: readonly number[];
  /** Merging inputs, running the graph, splitting outputs. */
  readonly inputMs: number;
  readonly inferMs: number;
  readonly outputMs: number;
  readonly hasFailed: boolean;
  /** By the executor's clock. */
  readonly startedAtMs: number;
  /** The works that are traced, and since when they had waited. */
  readonly tracedRequests: readonly { readonly span: Span; readonly queuedAtMs: number }[];
}

/** What waits for one session now. */
export interface TierQueueState {
  readonly tier: TierRef;
  readonly requestCount: number;
  readonly rows: number;
  /** Of the oldest; 0 where nothing waits. */
  readonly oldestAgeMs: number;
  /** Runs under way. */
  readonly runsInFlight: number;
}

export interface Executor {
  /** Of every tier that had work and whose session is still there. */
  queueStates(): readonly TierQueueState[];
  /** @throws queue_full, request_expired, request_cancelled; invalid_tensor, session_failed from the session. */
  execute(work: ExecutionRequest): Promise<NamedTensors>;
}
