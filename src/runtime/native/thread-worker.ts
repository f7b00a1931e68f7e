// Thread worker: runs a session in a thread, which starts fast, but whose crash also crashes the server.

import { Worker } from "node:worker_threads";
import { reasonOf } from "../../core/errors.ts";
import type { NamedTensors, Tensor } from "../../core/tensor.ts";
import type { NativeSessionOptions } from "./session-options.ts";
import type { WorkerResponse, StartWorker } from "./worker-messages.ts";

/** First message to the worker. */
export interface ThreadStart {
  readonly model: Uint8Array;
  readonly options: NativeSessionOptions;
}

export const startThreadWorker: StartWorker = (model, options, events) => {
  const worker = new Worker(new URL("./thread-entry.ts", import.meta.url), { execArgv: [] });
  let exitReason = "on its own";
  worker.on("message", (message: WorkerResponse) => events.onMessage(message));
  worker.on("error", (error) => (exitReason = `by an error: ${reasonOf(error)}`));
  worker.on("exit", () => events.onExit(exitReason));
  worker.postMessage({ model, options } satisfies ThreadStart, []);
  return {
    pid: undefined,
    send: (message) =>
      worker.postMessage(
        message.kind === "run" ? { ...message, inputs: copyPartialViews(message.inputs) } : message,
        [],
      ),
    keepAlive: (isHeld) => (isHeld ? worker.ref() : worker.unref()),
    kill: () => void worker.terminate(),
  };
};

/** Copies partial views, because a sent view would carry its whole buffer. */
function copyPartialViews(tensors: NamedTensors): NamedTensors {
  return Object.fromEntries(
    Object.entries(tensors).map(([name, tensor]) => [
      name,
      isPartialView(tensor) ? ({ ...tensor, data: tensor.data.slice() } as Tensor) : tensor,
    ]),
  );
}

const isPartialView = (tensor: Tensor): boolean =>
  tensor.datatype !== "BYTES" && tensor.data.byteLength < tensor.data.buffer.byteLength;
