// `npm run bench:cost -- intent`: processor time of an answer, including HTTP. Compares the cascade at the
// edge with direct calls of the region server, alternately on the same samples. The client's own time is excluded.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { MODELS_FOLDER } from "../../src/cli/local/paths.ts";
import { startLocalSystem } from "../../src/cli/local/system.ts";
import { bundleWorker } from "../../src/cli/local/upload.ts";
import { startWorkerdEdge } from "../../src/cli/local/workerd-edge.ts";
import { toMessageHeaders } from "../../src/protocol/open-inference-http.ts";
import { encodeInferRequest } from "../../src/protocol/open-inference.ts";
import { predictResponseSchema } from "../../src/protocol/predict.ts";
import { toS3Variables } from "../../src/registry/s3-config.ts";
import { TASK_INPUT_NAME } from "../../src/tasks/task.ts";
import { getTask } from "../../src/tasks/tasks.ts";
import { readSamples } from "../../src/toolchain/evaluate/labeled-samples.ts";
import { quantile } from "../../src/toolchain/evaluate/latency.ts";
import { requireClassification } from "../../src/toolchain/evaluate/project-tier.ts";
import { readProject } from "../../src/toolchain/project.ts";
import { type Call, createSender, type Send } from "./lib/checked-load.ts";
import { DATASET_SPLITS } from "./lib/dataset-splits.ts";
import { readProcessCpuMs } from "./lib/process-cpu.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    n: { type: "string", default: "3000" },
    rounds: { type: "string", default: "5" },
    callers: { type: "string", default: "1" },
    seed: { type: "string", default: "1" },
    smoke: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
const [model = "intent"] = positionals;
const part = DATASET_SPLITS[model];
if (values.help || part === undefined) {
  console.log(`npm run bench:cost -- <${Object.keys(DATASET_SPLITS).join(" | ")}> [--n samples] [--rounds] [--callers at a time] [--seed s] [--smoke: nothing is written]

Samples are read from the folder EDGETIER_DATA_DIR (../shared/data).`);
  process.exit(values.help ? 0 : 2);
}
const [n, rounds, callers, seed] = [
  Number(values.n),
  Number(values.rounds),
  Number(values.callers),
  Number(values.seed),
];

interface Route {
  readonly name: "cascade" | "region alone";
  readonly send: Send;
  readonly calls: readonly Call[];
  /** One value per round. */
  readonly edgeMs: number[];
  readonly regionMs: number[];
}

const project = requireClassification((await readProject(join(MODELS_FOLDER, model))).project);
const task = getTask(project.task);
const samples = await readSamples(await part.validation(), {
  task,
  limits: project.input,
  limit: n,
  seed,
});
const inputs = samples.map(({ input }) => task.encodeInput(input));

const folder = await mkdtemp(join(tmpdir(), "edgetier-bench-"));
const upload = await bundleWorker(join(folder, "worker.bundle"));
const system = await startLocalSystem({
  stateFolder: join(folder, "state"),
  withRedis: false,
  regionVariables: { EDGETIER_REGION_KEYS: "", EDGETIER_REGION_THREADS: "1" },
  log: console.error,
});
const edge = await startWorkerdEdge(upload, {
  ...toS3Variables(system.store),
  EDGETIER_REGION_URL: system.urls.region ?? "",
});
const senders = [createSender(edge.url), createSender(system.urls.region ?? "")] as const;
try {
  const ways: Route[] = [
    {
      name: "cascade",
      send: senders[0],
      calls: inputs.map(createEdgeCall),
      edgeMs: [],
      regionMs: [],
    },
    {
      name: "region alone",
      send: senders[1],
      calls: inputs.map(createRegionCall),
      edgeMs: [],
      regionMs: [],
    },
  ];
  const share = await measureEdgeShare(senders[0], inputs.map(createEdgeCall));
  for (const { send, calls } of ways) await callAll(send, calls);
  for (let round = 0; round < rounds; round++)
    for (const way of round % 2 === 0 ? ways : ways.toReversed()) await measure(way);

  const totals = ways.map(({ edgeMs, regionMs }) =>
    edgeMs.map((ms, round) => ms + (regionMs[round] ?? 0)),
  );
  const [ofCascade = [], ofRegion = []] = totals;
  const ratios = ofCascade.map((ms, round) => (ofRegion[round] ?? Number.NaN) / ms);
  await writeBenchReport({
    name: `cost-${model}`,
    seed,
    n: inputs.length * rounds,
    packages: ["hono", "onnxruntime-web", "onnxruntime-node", "wrangler"],
    isSaved: !values.smoke,
    rows: ways.map(({ name, edgeMs, regionMs }, position) => ({
      case: name,
      edgeMs: meanOf(edgeMs),
      regionMs: meanOf(regionMs),
      totalMs: meanOf(totals[position] ?? []),
    })),
    figures: {
      edgeShare: roundToFourDigits(share),
      costRatio: roundToFourDigits(quantile(ratios, 0.5)),
      leastRatio: roundToFourDigits(Math.min(...ratios)),
      mostRatio: roundToFourDigits(Math.max(...ratios)),
    },
    notes: [
      "Processor time of workerd, and of the region server with its sessions, a request; caches off.",
    ],
  });
} finally {
  for (const sender of senders) sender.close();
  await edge.stop();
  await system.stop();
  await rm(folder, { recursive: true, force: true });
}

function createEdgeCall(bytes: Uint8Array): Call {
  const type = project.task === "image-classification" ? "image/jpeg" : "text/plain";
  return {
    path: `/v1/models/${model}/predict?cache=bypass`,
    body: bytes,
    headers: { "content-type": type, "x-deadline-ms": "10000" },
  };
}

/** As the edge asks it. */
function createRegionCall(bytes: Uint8Array): Call {
  const message = encodeInferRequest(
    { inputs: { [TASK_INPUT_NAME]: { datatype: "BYTES", shape: [1], data: [bytes] } } },
    true,
  );
  return {
    path: `/v2/models/${model}/infer`,
    body: message.body,
    headers: toMessageHeaders(message),
  };
}

async function measureEdgeShare(send: Send, calls: readonly Call[]): Promise<number> {
  let atTheEdge = 0;
  await callAll(send, calls, (body) => {
    const [output] = predictResponseSchema.parse(JSON.parse(body)).outputs;
    if (output?.degraded !== false) throw new Error(`a degraded answer: ${body.slice(0, 200)}`);
    if (output.tier.startsWith("edge")) atTheEdge++;
  });
  return atTheEdge / calls.length;
}

async function measure({ name, send, calls, edgeMs, regionMs }: Route): Promise<void> {
  const before = await readCpuMs();
  await callAll(send, calls);
  const after = await readCpuMs();
  edgeMs.push((after.edge - before.edge) / calls.length);
  regionMs.push((after.others - before.others) / calls.length);
  console.error(
    `${name}: ${roundToFourDigits(edgeMs.at(-1) ?? 0)} + ${roundToFourDigits(regionMs.at(-1) ?? 0)} ms`,
  );
}

/** Processor time of workerd, and of the other child processes: the region, and an idle store. */
async function readCpuMs(): Promise<{ readonly edge: number; readonly others: number }> {
  const [all, ofEdge] = [
    (await readProcessCpuMs(process.pid)) ?? Number.NaN,
    (await readProcessCpuMs(edge.pid)) ?? Number.NaN,
  ];
  const { user, system: kernel } = process.cpuUsage();
  return { edge: ofEdge, others: all - ofEdge - (user + kernel) / 1000 };
}

async function callAll(
  send: Send,
  calls: readonly Call[],
  onBody: (body: string) => void = () => {},
): Promise<void> {
  let next = 0;
  const caller = async () => {
    for (let call = calls[next++]; call !== undefined; call = calls[next++]) {
      const { status, body } = await send(call);
      if (status !== 200) throw new Error(`status ${status}: ${body.slice(0, 200)}`);
      onBody(body);
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
}

function meanOf(values: readonly number[]): number {
  return roundToFourDigits(values.reduce((sum, value) => sum + value, 0) / values.length);
}
