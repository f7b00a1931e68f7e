// Peer process: starts a peer's command and waits until it is ready.
import { rm } from "node:fs/promises";
import { startChild } from "../../../src/cli/local/child.ts";
import { reasonOf } from "../../../src/core/errors.ts";
import { type Target, connectTarget } from "../region/target.ts";

const MAX_LOG_LINES = 20;

export interface PeerProcess {
  readonly name: string;
  readonly model: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly port: number;
  /** Configuration folder, which is removed when the peer stops. */
  readonly folder: string;
}

/** @throws with the last log lines if the peer does not start */
export async function startPeerProcess({
  name,
  model,
  command,
  args,
  environment,
  port,
  folder,
}: PeerProcess): Promise<Target> {
  const lines: string[] = [];
  const onLine = (line: string) => {
    if (lines.push(line) > MAX_LOG_LINES) lines.shift();
  };
  const child = await startChild({
    name,
    command,
    args,
    environment: { PYTHONDONTWRITEBYTECODE: "1", ...environment },
    onLine,
  });
  if (child === undefined) throw new Error(`${command} is not there`);
  const stop = async () => {
    await child.stop();
    await rm(folder, { recursive: true, force: true });
  };
  return await connectTarget(name, model, {
    ...child,
    url: `http://127.0.0.1:${port}`,
    stop,
  }).catch((error: unknown) => {
    throw new Error(`${reasonOf(error)}\n${lines.join("\n")}`, { cause: error });
  });
}
