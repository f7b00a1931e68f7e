// What a session's worker does, whatever carries its messages: opens the session, runs it message by message, ends when told.

import { fieldsOf, type ServerChannel, type ToWorker } from "./messages.ts";
import { createNativeRuntime, type NativeSession } from "./native-runtime.ts";

export async function serveSession(channel: ServerChannel): Promise<void> {
  let session: NativeSession;
  try {
    session = await open(channel);
  } catch (error) {
    channel.send({ kind: "refused", error: fieldsOf(error) });
    channel.close();
    return;
  }
  channel.listen((message) => void take(session, channel, message));
  channel.send({
    kind: "ready",
    inputs: session.inputs,
    outputs: session.outputs,
    memoryBytes: channel.memoryBytes(session.memoryBytes),
  });
}

/** On its own, so that nothing holds the model's bytes afterwards. */
async function open(channel: ServerChannel): Promise<NativeSession> {
  return await createNativeRuntime(channel.options).createSession(await channel.takeModel());
}

async function take(
  session: NativeSession,
  channel: ServerChannel,
  message: ToWorker,
): Promise<void> {
  if (message.kind === "end") {
    await session.dispose(); // waits for the runs before it
    channel.close();
    return;
  }
  try {
    channel.send({
      kind: "done",
      id: message.id,
      outputs: await session.run(message.inputs),
      nodes: session.nodes,
    });
  } catch (error) {
    channel.send({ kind: "failed", id: message.id, error: fieldsOf(error) });
  }
}
