// Entry point of a session's thread (thread-worker.ts).

import { parentPort } from "node:worker_threads";
import { serveSession } from "./serve-session.ts";
import type { ThreadStart } from "./thread-worker.ts";
import type { WorkerRequest } from "./worker-messages.ts";

const port = parentPort;
if (port === null) throw new Error("This file runs as a worker thread.");

port.once("message", ({ model, options }: ThreadStart) => {
  const models = [model];
  void serveSession({
    options,
    receiveModel: async () => models.pop() ?? new Uint8Array(),
    measureMemoryBytes: (modelBytes) => modelBytes, // other memory is indistinguishable from the server's
    send: (message) => port.postMessage(message, []),
    onMessage: (listener) => void port.on("message", (message: WorkerRequest) => listener(message)),
    close: () => port.close(),
  });
});
