// Entry point of a session's process (process-worker.ts). The process ends with its server, however the server ends.

import { readFileSync } from "node:fs";
import { Socket } from "node:net";
import {
  MODEL_FD,
  SHARED_MEMORY_FD,
  type ProcessResponse,
  type ProcessRunRequest,
  type ProcessStart,
  type ProcessRequest,
} from "./process-worker.ts";
import { serveSession } from "./serve-session.ts";
import { writeSharedTensors, readSharedTensors } from "./shared-memory.ts";
import type { WorkerResponse, WorkerRequest } from "./worker-messages.ts";

// The channel closes when the server ends, even by SIGKILL. A started run still completes first.
process.once("disconnect", () => process.exit());
// A terminal or a service manager signals the server and its workers. The worker ignores it to answer queued runs.
process.on("SIGINT", () => {}).on("SIGTERM", () => {});

const { modelBytes, options } = await new Promise<ProcessStart>((resolve) =>
  process.once("message", resolve),
);
let unsent = 0;
let isClosing = false;
/** The run that uses the shared file, and the buffer of its inputs. At most one run uses them at a time. */
let sharedMemoryRunId: number | undefined;
let inputBuffer = new ArrayBuffer();

await serveSession({
  options,
  receiveModel,
  measureMemoryBytes() {
    globalThis.gc?.(); // frees the model's bytes, which ONNX Runtime has copied
    return measureOwnMemoryBytes();
  },
  send(message: WorkerResponse) {
    unsent++;
    process.send?.(shareOutputs(message), undefined, {}, () => {
      unsent--;
      closeIfDone();
    });
  },
  onMessage: (listener) =>
    void process.on("message", (message: ProcessRequest) =>
      listener(message.kind === "run" ? receiveRun(message) : message),
    ),
  close() {
    isClosing = true;
    closeIfDone();
  },
});

function receiveRun({ kind, id, inputs, usesSharedMemory }: ProcessRunRequest): WorkerRequest {
  if (usesSharedMemory) sharedMemoryRunId = id;
  return { kind, id, inputs: readSharedTensors(SHARED_MEMORY_FD, inputs, ensureInputBuffer) };
}

function shareOutputs(message: WorkerResponse): ProcessResponse {
  return message.kind === "run-completed" && message.id === sharedMemoryRunId
    ? { ...message, outputs: writeSharedTensors(SHARED_MEMORY_FD, message.outputs) }
    : message;
}

function ensureInputBuffer(byteLength: number): ArrayBuffer {
  if (inputBuffer.byteLength < byteLength) inputBuffer = new ArrayBuffer(byteLength);
  return inputBuffer;
}

function closeIfDone(): void {
  if (isClosing && unsent === 0) process.disconnect();
}

async function receiveModel(): Promise<Uint8Array> {
  const model = new Uint8Array(modelBytes);
  let filled = 0;
  for await (const chunk of new Socket({ fd: MODEL_FD }) as AsyncIterable<Uint8Array>) {
    model.set(chunk, filled);
    filled += chunk.byteLength;
  }
  return model;
}

/**
 * Measures the memory that ends with this process, without shared libraries. Only Linux reports it; other platforms
 * return the whole resident size.
 */
function measureOwnMemoryBytes(): number {
  try {
    const kibibytes = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
    return kibibytes === undefined ? process.memoryUsage.rss() : Number(kibibytes) * 1024;
  } catch {
    return process.memoryUsage.rss();
  }
}
