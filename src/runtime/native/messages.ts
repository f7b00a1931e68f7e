// What a session's worker and its server say to each other, whatever carries it: plain data and typed arrays.

import { asEdgeTierError, type ErrorFields } from "../../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import type { NodeCounts } from "./node-count.ts";
import type { NativeSessionOptions } from "./session-options.ts";

/** To the worker: a run, or that it was the last. */
export type ToWorker =
  | { readonly kind: "run"; readonly id: number; readonly inputs: NamedTensors }
  | { readonly kind: "end" };

/** From the worker: `ready` or `refused` once, for the session; then `done` or `failed` for every run. */
export type FromWorker =
  | {
      readonly kind: "ready";
      readonly inputs: readonly TensorSpec[];
      readonly outputs: readonly TensorSpec[];
      readonly memoryBytes: number;
    }
  | { readonly kind: "refused"; readonly error: ErrorFields }
  | {
      readonly kind: "done";
      readonly id: number;
      readonly outputs: NamedTensors;
      readonly nodes: NodeCounts | undefined;
    }
  | { readonly kind: "failed"; readonly id: number; readonly error: ErrorFields };

/** A worker as its server sees it: one session in a thread or process of its own. */
export interface SessionWorker {
  /** Of its process, where it has one. */
  readonly pid: number | undefined;
  /** Copies what it sends: the caller's tensors are the caller's again. */
  send(message: ToWorker): void;
  /** Whether the worker keeps the server from ending. It does until told otherwise. */
  hold(held: boolean): void;
  /** Ends it at once, whatever it is doing. */
  kill(): void;
}

export interface WorkerEvents {
  readonly message: (message: FromWorker) => void;
  /** Once, last of all. @param how as in "by SIGSEGV" */
  readonly ended: (how: string) => void;
}

export type StartWorker = (
  model: Uint8Array,
  options: NativeSessionOptions,
  events: WorkerEvents,
) => SessionWorker;

/** The worker's own end of it. */
export interface ServerChannel {
  readonly options: NativeSessionOptions;
  /** Once; nothing here keeps it. */
  takeModel(): Promise<Uint8Array>;
  /** Of this worker with its session open; at least. */
  memoryBytes(modelBytes: number): number;
  send(message: FromWorker): void;
  listen(listener: (message: ToWorker) => void): void;
  /** Lets the worker end when all has been sent. */
  close(): void;
}

/** An error as its fields: a class does not cross, and its cause need not be plain data. */
export function fieldsOf(thrown: unknown): ErrorFields {
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
