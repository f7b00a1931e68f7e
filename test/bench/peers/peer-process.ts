// A peer's process, from its command to its being ready.
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
  /** Its configuration, removed with it. */
  readonly folder: string;
}

/** @throws with its last lines if it does not come up */
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
