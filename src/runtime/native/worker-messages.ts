// Messages between a session's worker and its server, for any transport: plain data and typed arrays.

import { asEdgeTierError, type ErrorFields } from "../../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import type { NodeCounts } from "./node-counter.ts";
import type { NativeSessionOptions } from "./session-options.ts";

/** Message to the worker: a run, or the request to close after the last run. */
export type WorkerRequest =
  | { readonly kind: "run"; readonly id: number; readonly inputs: NamedTensors }
  | { readonly kind: "close" };

/**
 * Message from the worker: first `ready` or `open-failed` for the session, then `run-completed` or `run-failed` for each
 * run.
 */
export type WorkerResponse =
  | {
      readonly kind: "ready";
      readonly inputs: readonly TensorSpec[];
      readonly outputs: readonly TensorSpec[];
      readonly memoryBytes: number;
    }
  | { readonly kind: "open-failed"; readonly error: ErrorFields }
  | {
      readonly kind: "run-completed";
      readonly id: number;
      readonly outputs: NamedTensors;
      readonly nodes: NodeCounts | undefined;
    }
  | { readonly kind: "run-failed"; readonly id: number; readonly error: ErrorFields };

/** The server's side of a worker, which has one session in its own thread or process. */
export interface SessionWorker {
  /** Process id; undefined for a thread. */
  readonly pid: number | undefined;
  /** Sends a copy of the message, so that the caller may reuse its tensors. */
  send(message: WorkerRequest): void;
  /** Sets whether the worker keeps the server process running; initially true. */
  keepAlive(isHeld: boolean): void;
  /** Ends the worker immediately, even during a run. */
  kill(): void;
}

export interface WorkerEvents {
  readonly onMessage: (message: WorkerResponse) => void;
  /** Receives the last event, exactly once. @param reason for example "by SIGSEGV" */
  readonly onExit: (reason: string) => void;
}

export type StartWorker = (
  model: Uint8Array,
  options: NativeSessionOptions,
  events: WorkerEvents,
) => SessionWorker;

/** The worker's side of the message channel. */
export interface WorkerChannel {
  readonly options: NativeSessionOptions;
  /** Receives the model, once. The channel does not keep it. */
  receiveModel(): Promise<Uint8Array>;
  /** Measures a lower bound of the worker's memory with its open session. */
  measureMemoryBytes(modelBytes: number): number;
  send(message: WorkerResponse): void;
  onMessage(listener: (message: WorkerRequest) => void): void;
  /** Lets the worker end after all messages are sent. */
  close(): void;
}

/** Converts an error to its fields, because classes cannot be sent, and a cause may not be plain data. */
export function toErrorFields(thrown: unknown): ErrorFields {
  const { code, status, detail, remedy, retryable, retryAfterSeconds } = asEdgeTierError(thrown);
  return {
    code,
    status,
    detail,
    remedy,
    retryable,
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  };
}
