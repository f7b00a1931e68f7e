// What a session's worker does, whatever carries its messages: opens the session, runs it message by message, ends when told.

import { toErrorFields, type WorkerChannel, type WorkerRequest } from "./worker-messages.ts";
import { createNativeRuntime, type NativeSession } from "./native-runtime.ts";

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

/** On its own, so that nothing holds the model's bytes afterwards. */
async function openSession(channel: WorkerChannel): Promise<NativeSession> {
  return await createNativeRuntime(channel.options).createSession(await channel.receiveModel());
}

async function handleRequest(
  session: NativeSession,
  channel: WorkerChannel,
  message: WorkerRequest,
): Promise<void> {
  if (message.kind === "close") {
    await session.dispose(); // waits for the runs before it
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
