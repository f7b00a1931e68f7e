// Runs the `edgetier` command: in this process, or as a child process for signals, terminals and the bin.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { format } from "node:util";

const ENTRY = join(import.meta.dirname, "../../src/cli/edgetier.ts");

export interface CommandResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

type Environment = Readonly<Record<string, string>>;

let lastRun: Promise<unknown> = Promise.resolve();

/**
 * Runs a command in this process and captures its output. Runs are serial, because they share `process.env` and the
 * standard streams.
 */
export function runEdgetier(
  args: readonly string[],
  environment: Environment = {},
): Promise<CommandResult> {
  const run = lastRun.then(() => runInProcess(args, environment));
  lastRun = run.catch(() => {});
  return run;
}

async function runInProcess(
  args: readonly string[],
  environment: Environment,
): Promise<CommandResult> {
  const [{ runCommandLine }, { rootCommand }] = await Promise.all([
    import("../../src/cli/command-line.ts"),
    import("../../src/cli/commands/root.ts"),
  ]);
  const restoreProcess = saveProcessState();
  const output = captureOutput();
  try {
    Object.assign(process.env, { NO_COLOR: "1", ...environment });
    const code = await runCommandLine(rootCommand, args);
    return { code, stdout: output.stdout(), stderr: output.stderr() };
  } finally {
    output.release();
    restoreProcess();
  }
}

/** Events whose listeners a command adds for the rest of its process. */
const LISTENED_EVENTS = ["SIGINT", "SIGTERM", "SIGHUP", "newListener"];

/** @returns a function that restores the environment, the exit code and the listeners of this process */
function saveProcessState(): () => void {
  const environment = { ...process.env };
  const { exitCode } = process;
  const listeners = new Map(
    LISTENED_EVENTS.map((event) => [event, new Set(process.rawListeners(event))]),
  );
  return () => {
    for (const name of Object.keys(process.env))
      if (!(name in environment)) delete process.env[name];
    Object.assign(process.env, environment);
    process.exitCode = exitCode;
    for (const [event, kept] of listeners)
      for (const listener of process.rawListeners(event))
        if (!kept.has(listener)) process.off(event, listener as () => void);
  };
}

/** The last error that a failed command printed with `--json`, next to its exit code. */
export interface CommandFailure {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly code: string;
  readonly detail: string;
  readonly remedy: string;
}

export const parseFailure = ({
  code: exitCode,
  stdout,
  stderr,
}: CommandResult): CommandFailure => ({
  ...JSON.parse(stderr.trim().split("\n").at(-1) ?? ""),
  exitCode,
  stdout,
});

/** Runs a command with `--json` in this process; it has to fail. */
export const runFailingEdgetier = async (
  args: readonly string[],
  environment: Environment = {},
): Promise<CommandFailure> => parseFailure(await runEdgetier([...args, "--json"], environment));

interface CapturedOutput {
  stdout(): string;
  stderr(): string;
  release(): void;
}

const CONSOLE_STREAMS = {
  log: "stdout",
  info: "stdout",
  debug: "stdout",
  warn: "stderr",
  error: "stderr",
} as const;

/** Replaces the standard streams and the console, which the test runner has replaced by its own. */
function captureOutput(): CapturedOutput {
  const text = { stdout: "", stderr: "" };
  const write = (stream: "stdout" | "stderr") =>
    ((chunk: string | Uint8Array, ...rest: unknown[]) => {
      text[stream] += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString();
      const onWritten = rest.find((argument) => typeof argument === "function");
      if (onWritten !== undefined) queueMicrotask(() => (onWritten as () => void)());
      return true;
    }) as typeof process.stdout.write;
  const original = {
    stdout: process.stdout.write,
    stderr: process.stderr.write,
    console: { ...console },
  };
  process.stdout.write = write("stdout");
  process.stderr.write = write("stderr");
  for (const [method, stream] of Object.entries(CONSOLE_STREAMS))
    console[method as keyof typeof CONSOLE_STREAMS] = (...values: unknown[]) =>
      void (text[stream] += `${format(...values)}\n`);
  return {
    stdout: () => text.stdout,
    stderr: () => text.stderr,
    release: () => {
      process.stdout.write = original.stdout;
      process.stderr.write = original.stderr;
      Object.assign(console, original.console);
    },
  };
}

export interface RunningCommand {
  readonly result: Promise<CommandResult>;
  /** Resolves when stdout has a line that matches. */
  waitForOutput(pattern: RegExp): Promise<void>;
  signal(name: NodeJS.Signals): void;
}

/** Starts a command as a child process, with pipes as its standard streams. */
export function startEdgetier(
  args: readonly string[],
  environment: Environment = {},
): RunningCommand {
  const child = spawn(process.execPath, [ENTRY, ...args], {
    env: { ...process.env, NO_COLOR: "1", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const result = new Promise<CommandResult>((resolve) =>
    child.on("close", (code) => resolve({ code, stdout, stderr })),
  );
  return {
    result,
    waitForOutput: (pattern) =>
      new Promise((resolve, reject) => {
        const resolveOnMatch = () => pattern.test(stdout) && resolve();
        child.stdout.on("data", resolveOnMatch);
        resolveOnMatch();
        void result.then(() =>
          reject(new Error(`The command ended before it printed ${pattern}: ${stdout}${stderr}`)),
        );
      }),
    signal: (name) => void child.kill(name),
  };
}

/** Runs a command as a child process to its end. */
export const spawnEdgetier = (
  args: readonly string[],
  environment: Environment = {},
): Promise<CommandResult> => startEdgetier(args, environment).result;
