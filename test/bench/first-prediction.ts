// `npm run bench:first`: measures the time from a fresh clone to a first prediction with the README's first command.
// Also the time from an ONNX file to a served model, in the region of the running system and at the edge.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs, promisify } from "node:util";
import * as z from "zod";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import { predictResponseSchema } from "../../src/protocol/predict.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const { values } = parseArgs({
  options: {
    onnx: { type: "string", default: "models/vision/sources/edge.onnx" },
    help: { type: "boolean" },
  },
});
if (values.help === true) {
  console.log(
    "npm run bench:first -- [--onnx file, in the repository, that is imported as a model of tensors]",
  );
  process.exit(0);
}

const RESPONSE_TIMEOUT_MS = 60_000;
const startedSchema = z.object({ urls: z.object({ edge: z.string(), s3: z.string() }) });
const metadataSchema = z.object({
  inputs: z.array(z.object({ name: z.string(), datatype: z.string(), shape: z.array(z.int()) })),
});

const rows: { case: string; phase: string; seconds: number }[] = [];
const figures: Record<string, number> = {};
const folder = await mkdtemp(join(tmpdir(), "edgetier-first-"));
const clone = join(folder, "edgetier");
/** Free ports and a separate state folder. */
const environment = {
  ...process.env,
  EDGETIER_PORT: "0",
  EDGETIER_REGION_PORT: "0",
  EDGETIER_S3_PORT: "0",
  EDGETIER_REDIS_REST_PORT: "0",
};

try {
  await timed("fresh clone", "firstPredictionSeconds", async (phase) => {
    await phase("git clone", () =>
      runCommand("git", ["clone", "--quiet", PROJECT_ROOT, clone], folder),
    );
    await phase("npm ci", () => runCommand("npm", ["ci", "--no-audit", "--no-fund"], clone));
    const system = await phase("npm start, to its own first prediction", startSystem);
    await using _ = system;
    const output = await phase("a prediction that no cache has", () => predict(system.urls.edge));
    console.error(`${output.label} by ${output.tier}`);
  });
  const system = await startSystem();
  {
    await using _ = system;
    const store = { EDGETIER_S3_ENDPOINT: system.urls.s3 };
    await timed(
      "ONNX file, to the region of the running system",
      "onnxToRegionSeconds",
      async (phase) => {
        await phase("model import", () =>
          edgetier([
            "model",
            "import",
            values.onnx,
            "--name",
            "own-far",
            "--task",
            "tensor",
            "--place",
            "region",
          ]),
        );
        await phase("model publish", () => edgetier(["model", "publish", "models/own-far"], store));
        console.error(
          `answered by ${await phase("first answer", () => requestInfer(system.urls.edge, "own-far"))}`,
        );
      },
    );
  }
  await timed("ONNX file, to the edge", "onnxToEdgeSeconds", async (phase) => {
    await phase("model import", () =>
      edgetier(["model", "import", values.onnx, "--name", "own", "--task", "tensor"]),
    );
    const again = await phase("npm start, with the engine stripped again", startSystem);
    await using _ = again;
    console.error(
      `answered by ${await phase("first answer", () => requestInfer(again.urls.edge, "own"))}`,
    );
  });
} finally {
  await rm(folder, { recursive: true, force: true });
}
await writeBenchReport({
  name: "first",
  seed: 0,
  n: 1,
  packages: ["wrangler", "onnxruntime-web"],
  rows,
  figures,
  notes: [
    `npm's cache is as it was found: npm ci takes as long as its downloads. The ONNX file is ${values.onnx}.`,
  ],
});

type Phase = <Result>(name: string, work: () => Promise<Result>) => Promise<Result>;

async function timed(
  name: string,
  figure: string,
  work: (phase: Phase) => Promise<void>,
): Promise<void> {
  let total = 0;
  await work(async (phase, step) => {
    const startedAtMs = performance.now();
    const result = await step();
    const seconds = (performance.now() - startedAtMs) / 1_000;
    total += seconds;
    rows.push({ case: name, phase, seconds: roundToFourDigits(seconds) });
    console.error(`${name}: ${phase}: ${roundToFourDigits(seconds)} s`);
    return result;
  });
  rows.push({ case: name, phase: "all", seconds: roundToFourDigits(total) });
  figures[figure] = roundToFourDigits(total);
}

async function runCommand(
  command: string,
  args: readonly string[],
  cwd: string,
  more: Readonly<Record<string, string>> = {},
): Promise<void> {
  await promisify(execFile)(command, [...args], {
    cwd,
    env: { ...environment, ...more },
    maxBuffer: 2 ** 26,
  });
}

async function edgetier(
  args: readonly string[],
  more: Readonly<Record<string, string>> = {},
): Promise<void> {
  await runCommand("npm", ["run", "--silent", "edgetier", "--", ...args], clone, more);
}

async function startSystem(): Promise<z.output<typeof startedSchema> & AsyncDisposable> {
  const child = spawn("npm", ["start", "--silent", "--", "--json"], {
    cwd: clone,
    env: environment,
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface(child.stdout)) {
    if (!line.startsWith("{")) continue;
    return { ...startedSchema.parse(JSON.parse(line)), [Symbol.asyncDispose]: () => stop(child) };
  }
  throw new Error("npm start ended before it was ready");
}

async function stop(child: ChildProcess): Promise<void> {
  child.kill("SIGINT");
  if (child.exitCode === null) await once(child, "exit");
}

async function predict(edge: string): Promise<{ readonly label: string; readonly tier: string }> {
  const response = await fetch(`${edge}/v1/models/intent/predict`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ inputs: "what is my balance" }),
  });
  const [output] = predictResponseSchema.parse(await response.json()).outputs;
  if (output === undefined) throw new Error("there is no answer");
  return output;
}

/** Sends zeros repeatedly until a prediction succeeds. @returns the tier */
async function requestInfer(edge: string, model: string): Promise<string> {
  const url = `${edge}/v2/models/${model}`;
  for (const giveUpAtMs = performance.now() + RESPONSE_TIMEOUT_MS; ; await sleep(50)) {
    const metadata = metadataSchema.safeParse(await (await fetch(url)).json());
    const inputs = metadata.data?.inputs.map(({ shape: open, ...spec }) => {
      const shape = open.map((size) => (size === -1 ? 1 : size));
      return {
        ...spec,
        shape,
        data: Array.from({ length: shape.reduce((product, size) => product * size, 1) }, () => 0),
      };
    });
    const response =
      inputs &&
      (await fetch(`${url}/infer`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ inputs }),
      }));
    const body = await response?.text();
    if (response?.ok === true) return response.headers.get("x-edgetier-tier") ?? "the region";
    if (performance.now() > giveUpAtMs)
      throw new Error(`${url} does not answer: ${body ?? "it is not known"}`);
  }
}
