// The native runtime with a thread for each session.
//
// onnxruntime-node runs a graph on the thread that asks for it. On a server's own thread that holds up everything else:
// while runs follow each other, Node accepts one connection a run (measured), and health checks wait as well.

import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { EdgeTierError, errors, reasonOf, type ErrorFields } from "../../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import { checkInputs } from "../check-inputs.ts";
import type { Runtime, Session } from "../runtime.ts";
import type { NativeRuntimeOptions } from "./native-runtime.ts";

/** What a session's thread is started with. */
export interface SessionThreadData {
  readonly model: Uint8Array;
  readonly options: NativeRuntimeOptions;
}

/** To the thread: a run, or that it was the last. */
export type ToSessionThread = { readonly kind: "run"; readonly id: number; readonly inputs: NamedTensors } | { readonly kind: "end" };

/** From the thread: once `ready` or `failed` for the session, then one of them for every run. */
export type FromSessionThread =
  | { readonly kind: "ready"; readonly inputs: readonly TensorSpec[]; readonly outputs: readonly TensorSpec[] }
  | { readonly kind: "done"; readonly id: number; readonly outputs: NamedTensors }
  | { readonly kind: "failed"; readonly id: number | undefined; readonly error: ErrorFields };

/** As createNativeRuntime, with runs that leave the calling thread free. */
export function createThreadedNativeRuntime(options: NativeRuntimeOptions = {}): Runtime {
  return {
    name: "onnxruntime-node, threaded",
    async createSession(model) {
      const workerData: SessionThreadData = { model, options };
      const worker = new Worker(new URL("./session-thread.ts", import.meta.url), { workerData, execArgv: [] });
      try {
        const [first]: FromSessionThread[] = await once(worker, "message");
        // Errors come as their fields: a class does not cross between threads.
        if (first?.kind === "ready") return threadedSession(worker, first.inputs, first.outputs);
        throw first?.kind === "failed" ? new EdgeTierError(first.error) : errors.sessionFailed("its thread did not start");
      } catch (error) {
        await worker.terminate();
        throw error instanceof EdgeTierError ? error : errors.sessionFailed(reasonOf(error), error);
      }
    },
  };
}

function threadedSession(worker: Worker, inputs: readonly TensorSpec[], outputs: readonly TensorSpec[]): Session {
  const pending = new Map<number, PromiseWithResolvers<NamedTensors>>();
  let lastId = 0;
  let closed: EdgeTierError | undefined;
  const ended = Promise.withResolvers<void>();

  worker.on("message", (message: FromSessionThread) => {
    if (message.kind === "done") settle(message.id)?.resolve(message.outputs);
    if (message.kind === "failed" && message.id !== undefined) settle(message.id)?.reject(new EdgeTierError(message.error));
  });
  worker.on("error", (error) => (closed = errors.sessionFailed(`its thread broke down (${reasonOf(error)})`, error)));
  worker.on("exit", () => {
    closed ??= errors.sessionFailed("its thread has ended");
    for (const id of pending.keys()) settle(id)?.reject(closed);
    ended.resolve();
  });
  worker.unref(); // a session alone does not keep a process running; a run does

  function settle(id: number): PromiseWithResolvers<NamedTensors> | undefined {
    const run = pending.get(id);
    pending.delete(id);
    if (pending.size === 0) worker.unref();
    return run;
  }

  return {
    inputs,
    outputs,
    memoryBytes: 0,

    async run(tensors) {
      checkInputs(inputs, tensors); // here too: what is wrong need not cross
      if (closed !== undefined) throw closed;
      const id = ++lastId;
      const run = Promise.withResolvers<NamedTensors>();
      pending.set(id, run);
      worker.ref();
      worker.postMessage({ kind: "run", id, inputs: tensors } satisfies ToSessionThread, []);
      return await run.promise;
    },

    async dispose() {
      if (closed === undefined) {
        closed = errors.sessionFailed("the session has been disposed of");
        worker.ref();
        worker.postMessage({ kind: "end" } satisfies ToSessionThread, []); // behind the runs that it still has to do
      }
      await ended.promise;
    },
  };
}
