// `npm run bench:guide`: follows infra/GUIDE.md in a fresh clone, command by command, up to the part that needs an account, and
// measures the time. Only the ports differ from the guide's, which may be in use.
import { execFile, spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import { findFreePort } from "../../src/cli/local/ports.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const ACCOUNT_MARKER = "<!-- From here on an account is needed. -->";
const READY = /Stop: Ctrl-C/;

interface Block {
  readonly commands: string;
  readonly isBackground: boolean;
}

const guide = await readFile(join(PROJECT_ROOT, "infra/GUIDE.md"), "utf8");
const followed = guide.slice(0, guide.indexOf(ACCOUNT_MARKER));
if (followed === "")
  throw new Error("infra/GUIDE.md does not say from where on an account is needed");
const blocks: Block[] = [...followed.matchAll(/^```sh( background)?\n(.*?)^```$/gms)].map(
  ([, background, commands = ""]) => ({ commands, isBackground: background !== undefined }),
);

const folder = await mkdtemp(join(tmpdir(), "edgetier-guide-"));
const clone = join(folder, "edgetier");
const ports = Object.fromEntries(
  await Promise.all(
    ["EDGETIER_PORT", "EDGETIER_REGION_PORT", "EDGETIER_S3_PORT", "EDGETIER_REDIS_REST_PORT"].map(
      async (name) => [name, `${await findFreePort()}`] as const,
    ),
  ),
);
/** PATH without the folders that npm prepends for this script, because the clone has its own. */
const PATH = (process.env["PATH"] ?? "")
  .split(delimiter)
  .filter((entry) => !entry.includes("node_modules"))
  .join(delimiter);
const environment = { PATH, HOME: process.env["HOME"] ?? folder, NO_COLOR: "1", ...ports };
const stops: (() => Promise<void>)[] = [];

/** Resolves after a successful exit. A background command resolves when it prints that it is ready. */
async function runBlock({ commands, isBackground }: Block): Promise<void> {
  const child = spawn(
    "bash",
    ["-euc", commands.replaceAll("127.0.0.1:8787", `127.0.0.1:${ports["EDGETIER_PORT"]}`)],
    { cwd: clone, env: environment, detached: true, stdio: ["ignore", "pipe", "pipe"] },
  );
  let output = "";
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  if (isBackground) {
    stops.push(async () => {
      if (child.exitCode === null) process.kill(-(child.pid ?? 0), "SIGINT");
      await ended;
    });
  }
  const ready = new Promise<void>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => {
        process.stderr.write(chunk);
        output += chunk.toString();
        if (READY.test(output)) resolve();
      });
    }
  });
  const code = await (isBackground ? Promise.race([ready.then(() => 0), ended]) : ended);
  if (code !== 0)
    throw new Error(`the guide's commands end with ${code}:\n${commands}\n${output.slice(-2_000)}`);
}

try {
  const beganAtMs = performance.now();
  await promisify(execFile)("git", ["clone", "--quiet", PROJECT_ROOT, clone]);
  const rows: { case: string; seconds: number }[] = [];
  const endsMs: number[] = [];
  for (const block of blocks) {
    const [first = ""] = block.commands.split("\n");
    process.stderr.write(`\n$ ${block.commands}`);
    const startedAtMs = performance.now();
    await runBlock(block);
    endsMs.push(performance.now());
    rows.push({
      case: first.slice(0, 100),
      seconds: roundToFourDigits((performance.now() - startedAtMs) / 1_000),
    });
  }
  const indexOf = (part: string) => blocks.findIndex(({ commands }) => commands.includes(part));
  const [imported, asked] = [indexOf("model import"), indexOf(" predict ")];
  const seconds = (from: number, to: number) =>
    roundToFourDigits(((endsMs[to] ?? Number.NaN) - from) / 1_000);
  await writeBenchReport({
    name: "guide",
    packages: [],
    seed: 0,
    n: 1,
    rows,
    figures: {
      onnxToServedSeconds: seconds(endsMs[imported - 1] ?? beganAtMs, asked),
      cloneToServedSeconds: seconds(beganAtMs, asked),
    },
  });
} finally {
  for (const stop of stops) await stop();
  await rm(folder, { recursive: true, force: true });
}
