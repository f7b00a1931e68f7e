// Worker session: one session in one worker, until the worker ends. supervised-session.ts replaces ended workers.

import { EdgeTierError } from "../../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import { nativeErrors } from "./errors.ts";
import type { NodeCounts } from "./node-counter.ts";
import type { NativeSessionOptions } from "./session-options.ts";
import type { WorkerResponse, SessionWorker, StartWorker } from "./worker-messages.ts";

export interface WorkerSession {
  readonly pid: number | undefined;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly memoryBytes: number;
  readonly nodes: NodeCounts | undefined;
  /** Resolves with the exit reason when the worker ends. */
  readonly exited: Promise<string>;
  /** Runs the graph on validated inputs. @throws session_lost if the worker ends first; the errors of the session's run */
  run(inputs: NamedTensors): Promise<NamedTensors>;
  /** Completes the runs in flight, and ends the worker. */
  shutDown(): Promise<void>;
  kill(): void;
}

/** @throws session_failed; session_lost if the worker ends before its session is open */
export async function openWorkerSession(
  startWorker: StartWorker,
  model: Uint8Array,
  options: NativeSessionOptions,
  signal?: AbortSignal,
): Promise<WorkerSession> {
  signal?.throwIfAborted();
  const opened = Promise.withResolvers<Extract<WorkerResponse, { kind: "ready" }>>();
  const exited = Promise.withResolvers<string>();
  const pending = new PendingRuns();
  let exitReason: string | undefined;
  let nodes: NodeCounts | undefined;

  const worker: SessionWorker = startWorker(model, options, {
    onMessage(message) {
      if (message.kind === "ready") return opened.resolve(message);
      if (message.kind === "open-failed") return opened.reject(new EdgeTierError(message.error));
      const run = pending.take(message.id);
      if (pending.size === 0) worker.keepAlive(false);
      if (message.kind === "run-failed") return run?.reject(new EdgeTierError(message.error));
      nodes ??= message.nodes;
      run?.resolve(message.outputs);
    },
    onExit(reason) {
      exitReason = reason;
      const lost = nativeErrors.sessionLost(reason);
      opened.reject(lost);
      pending.rejectAll(lost);
      exited.resolve(reason);
    },
  });
  killOnAbort(worker, signal, exited.promise);

  const { inputs, outputs, memoryBytes } = await opened.promise;
  worker.keepAlive(false); // an idle session does not keep the process running; a run does
  return {
    pid: worker.pid,
    inputs,
    outputs,
    memoryBytes,
    get nodes() {
      return nodes;
    },
    exited: exited.promise,
    async run(inputs) {
      if (exitReason !== undefined) throw nativeErrors.sessionLost(exitReason);
      const { id, promise } = pending.add();
      worker.keepAlive(true);
      worker.send({ kind: "run", id, inputs });
      return await promise;
    },
    async shutDown() {
      if (exitReason === undefined) {
        worker.keepAlive(true);
        worker.send({ kind: "close" });
      }
      await exited.promise;
    },
    kill: () => worker.kill(),
  };
}

function killOnAbort(
  worker: SessionWorker,
  signal: AbortSignal | undefined,
  exited: Promise<unknown>,
): void {
  const kill = () => worker.kill();
  signal?.addEventListener("abort", kill, { once: true });
  void exited.then(() => signal?.removeEventListener("abort", kill));
}

/** Runs in flight, by message id. */
class PendingRuns {
  readonly #runs = new Map<number, PromiseWithResolvers<NamedTensors>>();
  #lastId = 0;

  get size(): number {
    return this.#runs.size;
  }

  add(): { readonly id: number; readonly promise: Promise<NamedTensors> } {
    const id = ++this.#lastId;
    const run = Promise.withResolvers<NamedTensors>();
    this.#runs.set(id, run);
    return { id, promise: run.promise };
  }

  take(id: number): PromiseWithResolvers<NamedTensors> | undefined {
    const run = this.#runs.get(id);
    this.#runs.delete(id);
    return run;
  }

  rejectAll(error: Error): void {
    for (const run of this.#runs.values()) run.reject(error);
    this.#runs.clear();
  }
}
