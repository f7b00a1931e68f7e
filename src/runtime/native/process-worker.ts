// A session's worker that is a process: a crash in it ends one session, and its memory goes with it.
//
// The model comes through a pipe of its own: as a message it would be held twice on both sides. Large tensors come and go
// in a file in memory, which one run has at a time; others have theirs in their messages.

import { fork, type ChildProcess } from "node:child_process";
import { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { reasonOf } from "../../core/errors.ts";
import type { WorkerResponse, StartWorker, WorkerRequest } from "./worker-messages.ts";
import type { NativeSessionOptions } from "./session-options.ts";
import {
  closeSharedMemory,
  openSharedMemory,
  writeSharedTensors,
  readSharedTensors,
  type SharedTensors,
} from "./shared-memory.ts";

/** The file descriptor by which the worker reads its model. */
export const MODEL_FD = 4;
/** That of the shared file, where there is one. */
export const SHARED_MEMORY_FD = 5;
/** The first message, before any other. */
export interface ProcessStart {
  readonly modelBytes: number;
  readonly options: NativeSessionOptions;
}

type RunRequest = Extract<WorkerRequest, { kind: "run" }>;
type RunCompleted = Extract<WorkerResponse, { kind: "run-completed" }>;
/** `hasFile`: its outputs may lie there too. */
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
  let fileRun: number | undefined;
  const child = fork(ENTRY_PATH, [], {
    serialization: "advanced",
    execArgv: ["--expose-gc"],
    // A driver may print; the server's standard output is its log.
    stdio: ["ignore", STDERR, STDERR, "ipc", "pipe", file ?? "ignore"],
  });
  child.on("message", (message: ProcessResponse) => events.onMessage(received(message)));
  child.on("error", (error) => {
    if (child.pid === undefined) events.onExit(`before it began: ${reasonOf(error)}`); // nothing else will come of it
  });
  // Not "exit", before which its last messages need not have come.
  child.once("close", (code, signal) => {
    if (file !== undefined) closeSharedMemory(file);
    events.onExit(signal === null ? `with exit code ${code}` : `by ${signal}`);
  });

  const send = (message: ProcessStart | ProcessRequest) => {
    if (child.connected) child.send(message, () => {}); // one that has gone is told of by its exit
  };
  function sendRun(run: RunRequest): void {
    const hasFile = file !== undefined && fileRun === undefined && child.connected;
    if (hasFile) fileRun = run.id;
    send({
      ...run,
      inputs: hasFile ? writeSharedTensors(file, run.inputs) : run.inputs,
      usesSharedMemory: hasFile,
    });
  }
  function received(message: ProcessResponse): WorkerResponse {
    if (!("id" in message) || file === undefined || message.id !== fileRun)
      return message as WorkerResponse;
    fileRun = undefined;
    return message.kind === "run-completed"
      ? { ...message, outputs: readSharedTensors(file, message.outputs) }
      : message;
  }
  send({ modelBytes: model.byteLength, options });
  writeModel(child, model);
  return {
    pid: child.pid,
    send: (message) => (message.kind === "run" ? sendRun(message) : send(message)),
    keepAlive(held) {
      for (const handle of [child, child.channel]) {
        if (held) handle?.ref();
        else handle?.unref();
      }
    },
    kill: () => void child.kill("SIGKILL"),
  };
};

function writeModel(child: ChildProcess, model: Uint8Array): void {
  const pipe: unknown = child.stdio[MODEL_FD];
  if (!(pipe instanceof Socket)) return;
  pipe.on("error", () => {}); // the same
  pipe.resume().end(model);
}
