// Runs the `edgetier` command as a real child process.
import { spawn } from "node:child_process";
import { join } from "node:path";

const ENTRY = join(import.meta.dirname, "../../src/cli/edgetier.ts");

export interface CommandResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunningCommand {
  readonly result: Promise<CommandResult>;
  /** Resolves when stdout has a line that matches. */
  waitForOutput(pattern: RegExp): Promise<void>;
  signal(name: NodeJS.Signals): void;
}

export function startEdgetier(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): RunningCommand {
  const child = spawn(process.execPath, [ENTRY, ...args], {
    env: { ...process.env, NO_COLOR: "1", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const ended = new Promise<CommandResult>((resolve) =>
    child.on("close", (code) => resolve({ code, stdout, stderr })),
  );
  return {
    result: ended,
    waitForOutput: (pattern) =>
      new Promise((resolve, reject) => {
        const look = () => pattern.test(stdout) && resolve();
        child.stdout.on("data", look);
        look();
        void ended.then(() =>
          reject(new Error(`it ended before it said ${pattern}: ${stdout}${stderr}`)),
        );
      }),
    signal: (name) => void child.kill(name),
  };
}

export const runEdgetier = (
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<CommandResult> => startEdgetier(args, environment).result;
