// A fresh isolate: a workerd process of its own, which serves ten requests and is then killed.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import * as z from "zod";
import { createSender } from "./checked-load.ts";
import type { ColdWorker } from "./cold-worker/bundle-cold-workers.ts";

export const REQUESTS_PER_ISOLATE = 10;
const READY_TIMEOUT_MS = 60_000;
const CONTROL_FD = 3;

export interface IsolateSample {
  /** From the start of the process to an answer that takes no model. */
  readonly readyMs: number;
  /** Client latencies of requests 1 to 10, on an open connection. */
  readonly latenciesMs: readonly number[];
  /** Peak memory of the process after the last request. */
  readonly peakBytes: number;
  /** Checksums of all logits, and of the inputs they were computed from: equal for equal seeds. */
  readonly checksums: string;
}

const listening = z.object({
  event: z.literal("listen"),
  socket: z.literal("http"),
  port: z.int(),
});

/** @param seeds one for each request */
export async function measureIsolate(
  { config }: ColdWorker,
  seeds: readonly number[],
): Promise<IsolateSample> {
  const binary: string = createRequire(import.meta.url)("workerd").default;
  const startedAtMs = performance.now();
  const child = spawn(
    binary,
    ["serve", config, "--socket-addr=http=127.0.0.1:0", `--control-fd=${CONTROL_FD}`],
    {
      stdio: ["ignore", "ignore", "pipe", "pipe"],
      env: { SEEDS: seeds.join(",") },
    },
  );
  const ended = once(child, "exit");
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  let output = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (output += text));
  const timer = setTimeout(kill, READY_TIMEOUT_MS);
  try {
    const port = await readPort(child.stdio[CONTROL_FD] as Readable);
    if (port === undefined) throw new Error(`workerd did not come up: ${output}`);
    const send = createSender(`http://127.0.0.1:${port}`, 1);
    const ask = async (path: string) => {
      const { status, body } = await send({ path });
      if (status !== 200)
        throw new Error(`${config}, ${path}: status ${status}, ${body} ${output}`);
      return body;
    };
    const answers = [await ask("/ready")];
    const readyMs = performance.now() - startedAtMs;
    const latenciesMs: number[] = [];
    for (const seed of seeds) {
      const sentAtMs = performance.now();
      answers.push(await ask(`/predict?seed=${seed}`));
      latenciesMs.push(performance.now() - sentAtMs);
    }
    const peakBytes = await readPeakRssBytes(child.pid ?? 0);
    send.close();
    return { readyMs, latenciesMs, peakBytes, checksums: answers.join(" ") };
  } finally {
    clearTimeout(timer);
    kill();
    await ended;
    process.off("exit", kill);
  }
}

/** @returns undefined if the process ends without listening */
async function readPort(control: Readable): Promise<number | undefined> {
  for await (const line of createInterface({ input: control })) {
    const message = listening.safeParse(JSON.parse(line));
    if (message.success) return message.data.port;
  }
  return undefined;
}

/** Peak resident set (VmHWM, in KiB: proc(5)). */
async function readPeakRssBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return 1024 * Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]);
}
