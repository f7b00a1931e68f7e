// A session's worker that is a process: a crash in it ends one session, and its memory goes with it.
//
// The model comes through a pipe of its own: as a message it would be held twice on both sides.

import { fork, type ChildProcess } from "node:child_process";
import { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { reasonOf } from "../../core/errors.ts";
import type { FromWorker, StartWorker, ToWorker } from "./messages.ts";
import type { NativeSessionOptions } from "./session-options.ts";

/** The file descriptor by which the worker reads its model. */
export const MODEL_FD = 4;
/** The first message, before any other. */
export interface ProcessStart {
  readonly modelBytes: number;
  readonly options: NativeSessionOptions;
}

const ENTRY = fileURLToPath(new URL("./process-entry.ts", import.meta.url));
const STDERR = 2;

export const startProcessWorker: StartWorker = (model, options, events) => {
  const child = fork(ENTRY, [], {
    serialization: "advanced",
    execArgv: ["--expose-gc"],
    // A driver may print; the server's standard output is its log.
    stdio: ["ignore", STDERR, STDERR, "ipc", "pipe"],
  });
  child.on("message", (message: FromWorker) => events.message(message));
  child.on("error", (error) => {
    if (child.pid === undefined) events.ended(`before it began: ${reasonOf(error)}`); // nothing else will come of it
  });
  // Not "exit", before which its last messages need not have come.
  child.once("close", (code, signal) => events.ended(signal === null ? `with exit code ${code}` : `by ${signal}`));

  const send = (message: ProcessStart | ToWorker) => {
    if (child.connected) child.send(message, () => {}); // one that has gone is told of by its exit
  };
  send({ modelBytes: model.byteLength, options });
  writeModel(child, model);
  return {
    pid: child.pid,
    send,
    hold(held) {
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
