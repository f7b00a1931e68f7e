// The thread of one session (threaded-runtime.ts): creates it, runs it message by message, and ends when told.

import { parentPort, workerData } from "node:worker_threads";
import { asEdgeTierError } from "../../core/errors.ts";
import type { Session } from "../runtime.ts";
import { createNativeRuntime } from "./native-runtime.ts";
import type { FromSessionThread, SessionThreadData, ToSessionThread } from "./threaded-runtime.ts";

const { model, options }: SessionThreadData = workerData;

function tell(message: FromSessionThread): void {
  parentPort?.postMessage(message, []);
}

function tellFailure(thrown: unknown, id?: number): void {
  const { code, status, detail, remedy, retryable } = asEdgeTierError(thrown);
  tell({ kind: "failed", id, error: { code, status, detail, remedy, retryable } });
}

async function take(session: Session, message: ToSessionThread): Promise<void> {
  if (message.kind === "end") {
    await session.dispose(); // waits for the runs before it
    parentPort?.close();
    return;
  }
  const { id, inputs } = message;
  try {
    tell({ kind: "done", id, outputs: await session.run(inputs) });
  } catch (error) {
    tellFailure(error, id);
  }
}

try {
  const session = await createNativeRuntime(options).createSession(model);
  parentPort?.on("message", (message: ToSessionThread) => void take(session, message));
  tell({ kind: "ready", inputs: session.inputs, outputs: session.outputs });
} catch (error) {
  tellFailure(error);
}
