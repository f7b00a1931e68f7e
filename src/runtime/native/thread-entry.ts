// Where the thread of a session begins (thread-worker.ts).

import { parentPort } from "node:worker_threads";
import type { ToWorker } from "./messages.ts";
import { serveSession } from "./session-worker.ts";
import type { ThreadStart } from "./thread-worker.ts";

const port = parentPort;
if (port === null) throw new Error("This file runs as a worker thread.");

port.once("message", ({ model, options }: ThreadStart) => {
  const models = [model];
  void serveSession({
    options,
    takeModel: async () => models.pop() ?? new Uint8Array(),
    memoryBytes: (modelBytes) => modelBytes, // the rest cannot be told from the server's
    send: (message) => port.postMessage(message, []),
    listen: (listener) => void port.on("message", (message: ToWorker) => listener(message)),
    close: () => port.close(),
  });
});
