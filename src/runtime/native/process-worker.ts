// Process worker: runs a session in its own process, so that a crash ends one session only, and frees its memory.
//
// The model uses its own pipe, because a message would be in memory twice on both sides. Large tensors use a file in
// memory, which one run owns at a time. Concurrent runs send their tensors in messages.

import { fork, type ChildProcess } from "node:child_process";
import { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { reasonOf } from "../../core/errors.ts";
import type { NativeSessionOptions } from "./session-options.ts";
import {
  closeSharedMemory,
  openSharedMemory,
  writeSharedTensors,
  readSharedTensors,
  type SharedTensors,
} from "./shared-memory.ts";
import type { WorkerResponse, StartWorker, WorkerRequest } from "./worker-messages.ts";

/** File descriptor from which the worker reads its model. */
export const MODEL_FD = 4;
/** File descriptor of the shared file, if there is one. */
export const SHARED_MEMORY_FD = 5;
/** First message to the worker. */
export interface ProcessStart {
  readonly modelBytes: number;
  readonly options: NativeSessionOptions;
}

type RunRequest = Extract<WorkerRequest, { kind: "run" }>;
type RunCompleted = Extract<WorkerResponse, { kind: "run-completed" }>;
/** A run request. With `usesSharedMemory`, its outputs may also use the shared file. */
export type ProcessRunRequest = Omit<RunRequest, "inputs"> & {
  readonly inputs: SharedTensors;
  readonly usesSharedMemory: boolean;
};
export type ProcessRequest = Exclude<WorkerRequest, RunRequest> | ProcessRunRequest;
export type ProcessResponse =
  | Exclude<WorkerResponse, RunCompleted>
  | (Omit<RunCompleted, "outputs"> & { readonly outputs: SharedTensors });

const ENTRY_PATH = fileURLToPath(new URL("./process-entry.ts", import.meta.url));
const STDERR = 2;

export const startProcessWorker: StartWorker = (model, options, events) => {
  const file = openSharedMemory();
  let sharedMemoryRunId: number | undefined;
  const child = fork(ENTRY_PATH, [], {
    serialization: "advanced",
    execArgv: ["--expose-gc"],
    // A driver may print to standard output, which on the server is the log.
    stdio: ["ignore", STDERR, STDERR, "ipc", "pipe", file ?? "ignore"],
  });
  child.on("message", (message: ProcessResponse) => events.onMessage(receive(message)));
  child.on("error", (error) => {
    // A process that never started emits no other event.
    if (child.pid === undefined) events.onExit(`before it started: ${reasonOf(error)}`);
  });
  // "exit" can precede the last messages; "close" cannot.
  child.once("close", (code, signal) => {
    if (file !== undefined) closeSharedMemory(file);
    events.onExit(signal === null ? `with exit code ${code}` : `by ${signal}`);
  });

  const send = (message: ProcessStart | ProcessRequest) => {
    if (child.connected) child.send(message, () => {}); // the exit event reports a dead worker
  };
  function sendRun(run: RunRequest): void {
    const usesSharedMemory =
      file !== undefined && sharedMemoryRunId === undefined && child.connected;
    if (usesSharedMemory) sharedMemoryRunId = run.id;
    send({
      ...run,
      inputs: usesSharedMemory ? writeSharedTensors(file, run.inputs) : run.inputs,
      usesSharedMemory,
    });
  }
  function receive(message: ProcessResponse): WorkerResponse {
    if (!("id" in message) || file === undefined || message.id !== sharedMemoryRunId)
      return message as WorkerResponse;
    sharedMemoryRunId = undefined;
    return message.kind === "run-completed"
      ? { ...message, outputs: readSharedTensors(file, message.outputs) }
      : message;
  }
  send({ modelBytes: model.byteLength, options });
  writeModel(child, model);
  return {
    pid: child.pid,
    send: (message) => (message.kind === "run" ? sendRun(message) : send(message)),
    keepAlive(isHeld) {
      for (const handle of [child, child.channel]) {
        if (isHeld) handle?.ref();
        else handle?.unref();
      }
    },
    kill: () => void child.kill("SIGKILL"),
  };
};

function writeModel(child: ChildProcess, model: Uint8Array): void {
  const pipe: unknown = child.stdio[MODEL_FD];
  if (!(pipe instanceof Socket)) return;
  pipe.on("error", () => {}); // the exit event reports a dead worker
  pipe.resume().end(model);
}
