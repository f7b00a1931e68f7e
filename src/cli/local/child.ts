// A child process of the local system: its lines, its end, and a stop that leaves nothing behind.

import { processErrors } from "../../core/process-errors.ts";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { reasonOf } from "../../core/errors.ts";

/** After SIGTERM; then the child is killed. */
const STOP_GRACE_MS = 10_000;

export interface Child {
  readonly pid: number;
  /** As in `Part`. */
  readonly died: Promise<string>;
  stop(): Promise<void>;
}

export interface ChildOptions {
  /** For messages. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** Gets every line of stdout and stderr. */
  readonly onLine: (line: string) => void;
}

/** Keeps what a part prints while it starts: of interest only if it does not come up. */
export function bufferLines(onLine: (line: string) => void): {
  readonly onLine: (line: string) => void;
  readonly discard: () => void;
  readonly flush: () => void;
} {
  let held: string[] | undefined = [];
  return {
    onLine: (line) => (held === undefined ? onLine(line) : held.push(line)),
    discard: () => (held = undefined),
    flush() {
      held?.forEach(onLine);
      held = undefined;
    },
  };
}

/**
 * Starts it in a process group of its own, so that Ctrl-C reaches only this process, which then stops its parts in order.
 * @returns undefined where there is no such command. @throws component_failed
 */
export async function startChild({
  name,
  command,
  args,
  environment,
  onLine,
}: ChildOptions): Promise<Child | undefined> {
  const child = spawn(command, args, {
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...environment },
  });
  for (const output of [child.stdout, child.stderr])
    createInterface({ input: output }).on("line", onLine);
  let stopping = false;
  const ended = new Promise<string>((resolve) =>
    child.once("exit", (code, signal) => resolve(signal ?? `exit code ${code}`)),
  );
  const died = new Promise<string>(
    (resolve) => void ended.then((how) => !stopping && resolve(how)),
  );

  try {
    await once(child, "spawn");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw processErrors.componentFailed(name, reasonOf(error), error);
  }
  // The last resort, if this process ends without having stopped its parts.
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);

  return {
    pid: child.pid ?? 0,
    died,
    async stop() {
      stopping = true;
      if (child.exitCode === null && child.signalCode === null) {
        child.kill("SIGTERM");
        const timer = setTimeout(kill, STOP_GRACE_MS);
        await ended;
        clearTimeout(timer);
      }
      process.off("exit", kill);
    },
  };
}
