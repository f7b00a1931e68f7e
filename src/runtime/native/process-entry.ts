// Where the process of a session begins (process-worker.ts). It ends with its server, however that ends.

import { readFileSync } from "node:fs";
import { Socket } from "node:net";
import type { FromWorker, ToWorker } from "./messages.ts";
import {
  MODEL_FD,
  SHARED_FD,
  type FromProcess,
  type ProcessRun,
  type ProcessStart,
  type ToProcess,
} from "./process-worker.ts";
import { serveSession } from "./session-worker.ts";
import { placeTensors, takeTensors } from "./shared-file.ts";

// The channel closes when the server ends, even by SIGKILL; a run that has begun is done first.
process.once("disconnect", () => process.exit());
// A terminal or a service manager signals the server and its workers: what is queued is still to be answered.
process.on("SIGINT", () => {}).on("SIGTERM", () => {});

const { modelBytes, options } = await new Promise<ProcessStart>((resolve) =>
  process.once("message", resolve),
);
let unsent = 0;
let closing = false;
/** The run that has the shared file, and the buffer that its inputs are read into: there is one such run at a time. */
let fileRun: number | undefined;
let inputBuffer = new ArrayBuffer();

await serveSession({
  options,
  takeModel,
  memoryBytes() {
    globalThis.gc?.(); // the model's bytes, which ONNX Runtime has copied
    return ownMemoryBytes();
  },
  send(message: FromWorker) {
    unsent++;
    process.send?.(placed(message), undefined, {}, () => {
      unsent--;
      closeIfDone();
    });
  },
  listen: (listener) =>
    void process.on("message", (message: ToProcess) =>
      listener(message.kind === "run" ? taken(message) : message),
    ),
  close() {
    closing = true;
    closeIfDone();
  },
});

function taken({ kind, id, inputs, hasFile }: ProcessRun): ToWorker {
  if (hasFile) fileRun = id;
  return { kind, id, inputs: takeTensors(SHARED_FD, inputs, atLeast) };
}

function placed(message: FromWorker): FromProcess {
  return message.kind === "done" && message.id === fileRun
    ? { ...message, outputs: placeTensors(SHARED_FD, message.outputs) }
    : message;
}

function atLeast(byteLength: number): ArrayBuffer {
  if (inputBuffer.byteLength < byteLength) inputBuffer = new ArrayBuffer(byteLength);
  return inputBuffer;
}

function closeIfDone(): void {
  if (closing && unsent === 0) process.disconnect();
}

async function takeModel(): Promise<Uint8Array> {
  const model = new Uint8Array(modelBytes);
  let filled = 0;
  for await (const chunk of new Socket({ fd: MODEL_FD }) as AsyncIterable<Uint8Array>) {
    model.set(chunk, filled);
    filled += chunk.byteLength;
  }
  return model;
}

/** What would be free without this process: not the libraries, which it shares with others. Linux tells; elsewhere all of it. */
function ownMemoryBytes(): number {
  try {
    const kibibytes = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
    return kibibytes === undefined ? process.memoryUsage.rss() : Number(kibibytes) * 1024;
  } catch {
    return process.memoryUsage.rss();
  }
}
