// Serves a session inside its worker, over any message channel: opens it, runs it per message, and closes it on request.

import { createNativeRuntime, type NativeSession } from "./native-runtime.ts";
import { toErrorFields, type WorkerChannel, type WorkerRequest } from "./worker-messages.ts";

export async function serveSession(channel: WorkerChannel): Promise<void> {
  let session: NativeSession;
  try {
    session = await openSession(channel);
  } catch (error) {
    channel.send({ kind: "open-failed", error: toErrorFields(error) });
    channel.close();
    return;
  }
  channel.onMessage((message) => void handleRequest(session, channel, message));
  channel.send({
    kind: "ready",
    inputs: session.inputs,
    outputs: session.outputs,
    memoryBytes: channel.measureMemoryBytes(session.memoryBytes),
  });
}

/** Separate function, so that no local variable keeps the model's bytes in memory. */
async function openSession(channel: WorkerChannel): Promise<NativeSession> {
  return await createNativeRuntime(channel.options).createSession(await channel.receiveModel());
}

async function handleRequest(
  session: NativeSession,
  channel: WorkerChannel,
  message: WorkerRequest,
): Promise<void> {
  if (message.kind === "close") {
    await session.dispose(); // waits for earlier runs
    channel.close();
    return;
  }
  try {
    channel.send({
      kind: "run-completed",
      id: message.id,
      outputs: await session.run(message.inputs),
      nodes: session.nodes,
    });
  } catch (error) {
    channel.send({ kind: "run-failed", id: message.id, error: toErrorFields(error) });
  }
}
