// Port: runs requests on a session. The implementation in batching/ lets several requests share a run.

import type { NamedTensors } from "../../core/tensor.ts";
import type { Span } from "../../core/tracing.ts";
import type { BatchingConfig } from "../../registry/serving-config.ts";
import type { Session } from "../../runtime/runtime.ts";
import type { RowPadding } from "../../tasks/task.ts";
import type { DispatchReason } from "./batching/dispatch-policy.ts";

/** Identifies a tier in logs and metrics. */
export interface TierRef {
  readonly model: string;
  readonly version: number;
  readonly tier: string;
}

export interface ExecutionRequest {
  readonly session: Session;
  readonly tier: TierRef;
  /** How the tier's requests share runs; the executor's defaults fill the gaps. A session's first request decides. */
  readonly batching?: BatchingConfig | undefined;
  /** The first dimension of each tensor is the batch, with one row per element. */
  readonly inputs: NamedTensors;
  /** Deadline in milliseconds since the epoch; the answer is useless afterwards. */
  readonly expiresAtMs?: number | undefined;
  /** Aborted when the client disconnects. */
  readonly signal?: AbortSignal | undefined;
  /** Priority level; 1 is the highest. */
  readonly priority?: number | undefined;
  /** How the inputs were padded. Present if they may be padded further to share a run. */
  readonly padding?: RowPadding | undefined;
  /** Latency target of the model, counted from arrival. The request never waits for a batch beyond it. */
  readonly maxLatencyMs?: number | undefined;
  readonly span?: Span;
}

/** A finished run of a session. If a shared run failed, its requests may run again one by one. */
export interface BatchRun {
  readonly tier: TierRef;
  /** Number of requests that shared the run. */
  readonly requestCount: number;
  readonly rows: number;
  readonly reason: DispatchReason;
  /** Queue time of each request, longest first. */
  readonly queueTimesMs: readonly number[];
  /** Duration of merging inputs, of running the graph, and of splitting outputs. */
  readonly inputMs: number;
  readonly inferMs: number;
  readonly outputMs: number;
  readonly hasFailed: boolean;
  /** On the executor's clock. */
  readonly startedAtMs: number;
  /** Traced requests, with the start of their queue time. */
  readonly tracedRequests: readonly { readonly span: Span; readonly queuedAtMs: number }[];
}

/** Queue of one session at this moment. */
export interface TierQueueState {
  readonly tier: TierRef;
  readonly requestCount: number;
  readonly rows: number;
  /** Age of the oldest queued request; 0 if the queue is empty. */
  readonly oldestAgeMs: number;
  readonly runsInFlight: number;
}

export interface Executor {
  /** Returns the queue of every tier that had requests and whose session still exists. */
  queueStates(): readonly TierQueueState[];
  /** @throws queue_full, request_expired, request_cancelled; invalid_tensor, session_failed from the session. */
  execute(request: ExecutionRequest): Promise<NamedTensors>;
}
