// Child process of the local system: forwards its output lines, reports its end, and stops it reliably.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { reasonOf } from "../../core/errors.ts";
import { processErrors } from "../../core/process-errors.ts";

/** Time between SIGTERM and SIGKILL. */
const STOP_GRACE_MS = 10_000;

export interface Child {
  readonly pid: number;
  /** Resolves with the reason if the process ends without `stop`, as in `LocalService`. */
  readonly died: Promise<string>;
  stop(): Promise<void>;
}

export interface ChildOptions {
  /** Name in error messages. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** Receives every line of stdout and stderr. */
  readonly onLine: (line: string) => void;
}

/** Buffers a service's output while it starts, because the output matters only if the start fails. */
export function bufferLines(onLine: (line: string) => void): {
  readonly onLine: (line: string) => void;
  readonly discard: () => void;
  readonly flush: () => void;
} {
  let buffered: string[] | undefined = [];
  return {
    onLine: (line) => (buffered === undefined ? onLine(line) : buffered.push(line)),
    discard: () => (buffered = undefined),
    flush() {
      buffered?.forEach(onLine);
      buffered = undefined;
    },
  };
}

/**
 * Starts a child in its own process group, so that Ctrl-C reaches only this process, which stops its services in order.
 * Returns undefined if the command does not exist.
 * @throws component_failed
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
    (resolve) => void ended.then((ending) => !stopping && resolve(ending)),
  );

  try {
    await once(child, "spawn");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw processErrors.componentFailed(name, reasonOf(error), error);
  }
  // Last resort if this process exits without stopping its services.
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
