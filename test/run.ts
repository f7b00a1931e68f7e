// `npm test` and `npm run test:all`: builds the engine and checks the sources concurrently, then runs the tests.
//
//   node test/run.ts [--all] [vitest options and paths]
//
// `npm test` leaves out the projects named in SLOW_PROJECTS, and runs properties less often.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { SLOW_PROJECTS } from "./support/slow-tests.ts";

const VITEST = join(import.meta.dirname, "../node_modules/vitest/vitest.mjs");

const FAST_RUN_SHARE = "0.25";

interface StepResult {
  readonly name: string;
  readonly exitCode: number;
  readonly output: string;
  readonly seconds: number;
}

/** Runs a command and keeps its output, which is printed if it fails. */
function runStep(name: string, command: string, args: readonly string[]): Promise<StepResult> {
  const startedAtMs = performance.now();
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      const seconds = (performance.now() - startedAtMs) / 1000;
      console.log(`${name}: ${code === 0 ? "passed" : "FAILED"} in ${seconds.toFixed(1)} s`);
      resolve({ name, exitCode: code ?? 1, output, seconds });
    });
  });
}

/** @returns the exit code of the first step that failed, or 0 */
async function prepare(): Promise<number> {
  const results = await Promise.all([
    runStep("engine build", "npm", ["run", "--silent", "engine"]),
    runStep("check", "npm", ["run", "--silent", "check"]),
  ]);
  const failed = results.filter(({ exitCode }) => exitCode !== 0);
  for (const { name, output } of failed) console.error(`\n${name}:\n${output}`);
  return failed[0]?.exitCode ?? 0;
}

function runVitest(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const child = spawn(process.execPath, [VITEST, "run", ...args], {
    stdio: "inherit",
    env: { ...process.env, ...environment },
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? 1));
  });
}

const args = process.argv.slice(2);
const runsAll = args.includes("--all");
const rest = args.filter((argument) => argument !== "--all");
const prepared = await prepare();
process.exitCode =
  prepared !== 0
    ? prepared
    : runsAll
      ? await runVitest(rest, {})
      : await runVitest([...SLOW_PROJECTS.map((project) => `--project=!${project}`), ...rest], {
          EDGETIER_TEST_RUN_SHARE: FAST_RUN_SHARE,
        });
