// One session in one worker, until the worker ends. What takes its place is up to replaced-session.ts.

import { nativeErrors } from "./errors.ts";
import { EdgeTierError } from "../../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import type { WorkerResponse, SessionWorker, StartWorker } from "./worker-messages.ts";
import type { NodeCounts } from "./node-counter.ts";
import type { NativeSessionOptions } from "./session-options.ts";

export interface WorkerSession {
  readonly pid: number | undefined;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly memoryBytes: number;
  readonly nodes: NodeCounts | undefined;
  /** How it ended, once it has. */
  readonly exited: Promise<string>;
  /** Inputs are taken as checked. @throws session_lost where the worker ends first; what the session's run throws */
  run(inputs: NamedTensors): Promise<NamedTensors>;
  /** Does the runs that it has, and ends. */
  shutDown(): Promise<void>;
  kill(): void;
}

/** @throws session_failed; session_lost where the worker ends before its session is open */
export async function openWorkerSession(
  startWorker: StartWorker,
  model: Uint8Array,
  options: NativeSessionOptions,
  signal?: AbortSignal,
): Promise<WorkerSession> {
  signal?.throwIfAborted();
  const opened = Promise.withResolvers<Extract<WorkerResponse, { kind: "ready" }>>();
  const ended = Promise.withResolvers<string>();
  const runs = new Map<number, PromiseWithResolvers<NamedTensors>>();
  let lastId = 0;
  let how: string | undefined;
  let nodes: NodeCounts | undefined;

  const worker: SessionWorker = startWorker(model, options, {
    onMessage(message) {
      if (message.kind === "ready") return opened.resolve(message);
      if (message.kind === "open-failed") return opened.reject(new EdgeTierError(message.error));
      const run = settle(message.id);
      if (message.kind === "run-failed") return run?.reject(new EdgeTierError(message.error));
      nodes ??= message.nodes;
      run?.resolve(message.outputs);
    },
    onExit(text) {
      how = text;
      const lost = nativeErrors.sessionLost(text);
      opened.reject(lost);
      for (const run of runs.values()) run.reject(lost);
      runs.clear();
      ended.resolve(text);
    },
  });
  function settle(id: number): PromiseWithResolvers<NamedTensors> | undefined {
    const run = runs.get(id);
    runs.delete(id);
    if (runs.size === 0) worker.keepAlive(false);
    return run;
  }

  const kill = () => worker.kill();
  signal?.addEventListener("abort", kill, { once: true });
  void ended.promise.then(() => signal?.removeEventListener("abort", kill));

  const { inputs, outputs, memoryBytes } = await opened.promise;
  worker.keepAlive(false); // a session alone does not keep a process running; a run does
  return {
    pid: worker.pid,
    inputs,
    outputs,
    memoryBytes,
    get nodes() {
      return nodes;
    },
    exited: ended.promise,
    async run(inputs) {
      if (how !== undefined) throw nativeErrors.sessionLost(how);
      const id = ++lastId;
      const run = Promise.withResolvers<NamedTensors>();
      runs.set(id, run);
      worker.keepAlive(true);
      worker.send({ kind: "run", id, inputs });
      return await run.promise;
    },
    async shutDown() {
      if (how === undefined) {
        worker.keepAlive(true);
        worker.send({ kind: "close" });
      }
      await ended.promise;
    },
    kill,
  };
}
