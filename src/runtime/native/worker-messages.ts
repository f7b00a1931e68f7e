// What a session's worker and its server say to each other, whatever carries it: plain data and typed arrays.

import { asEdgeTierError, type ErrorFields } from "../../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import type { NodeCounts } from "./node-counter.ts";
import type { NativeSessionOptions } from "./session-options.ts";

/** To the worker: a run, or that it was the last. */
export type WorkerRequest =
  | { readonly kind: "run"; readonly id: number; readonly inputs: NamedTensors }
  | { readonly kind: "close" };

/** From the worker: `ready` or `refused` once, for the session; then `done` or `failed` for every run. */
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

/** A worker as its server sees it: one session in a thread or process of its own. */
export interface SessionWorker {
  /** Of its process, where it has one. */
  readonly pid: number | undefined;
  /** Copies what it sends: the caller's tensors are the caller's again. */
  send(message: WorkerRequest): void;
  /** Whether the worker keeps the server from ending. It does until told otherwise. */
  keepAlive(held: boolean): void;
  /** Ends it at once, whatever it is doing. */
  kill(): void;
}

export interface WorkerEvents {
  readonly onMessage: (message: WorkerResponse) => void;
  /** Once, last of all. @param how as in "by SIGSEGV" */
  readonly onExit: (how: string) => void;
}

export type StartWorker = (
  model: Uint8Array,
  options: NativeSessionOptions,
  events: WorkerEvents,
) => SessionWorker;

/** The worker's own end of it. */
export interface WorkerChannel {
  readonly options: NativeSessionOptions;
  /** Once; nothing here keeps it. */
  receiveModel(): Promise<Uint8Array>;
  /** Of this worker with its session open; at least. */
  measureMemoryBytes(modelBytes: number): number;
  send(message: WorkerResponse): void;
  onMessage(listener: (message: WorkerRequest) => void): void;
  /** Lets the worker end when all has been sent. */
  close(): void;
}

/** An error as its fields: a class does not cross, and its cause need not be plain data. */
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
