// The region with batching off, fixed and adaptive: `npm run bench:region`. Three region processes on one store, asked in
// turn, so that whatever the machine does meanwhile hits all of them.
import { parseArgs } from "node:util";
import { readProjects } from "../../src/build/project.ts";
import { MODELS_FOLDER, REGION_ENTRY } from "../../src/cli/local/paths.ts";
import { startLocalRegion } from "../../src/cli/local/region.ts";
import { startLocalS3 } from "../../src/cli/local/s3.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { publishModel } from "../../src/registry/publish.ts";
import { createModelStore } from "../../src/registry/store.ts";
import { type Call, closedLoop, createSender, type Latencies, openLoop, type Reply, type Send } from "./lib/load.ts";
import { makeQueries } from "./lib/queries.ts";
import { createRandom } from "./lib/random.ts";
import { report, rounded } from "./lib/report.ts";

const MODES = ["off", "fixed", "adaptive"] as const;
type Mode = (typeof MODES)[number];
const CONNECTIONS = [1, 16, 64];
const BOUND_MS = 50;
/** Each 1.15 times the one before it. */
const RATES = Array.from({ length: 14 }, (_, step) => Math.round(500 * 1.15 ** step));

const { values } = parseArgs({ options: { n: { type: "string", default: "3000" }, rounds: { type: "string", default: "7" }, seed: { type: "string", default: "1" }, help: { type: "boolean", default: false } } });
if (values.help) {
  console.log("npm run bench:region -- [--n samples of an open-loop row] [--rounds of each closed loop] [--seed number]");
  process.exit(0);
}
const [n, rounds, seed] = [values.n, values.rounds, values.seed].map(Number) as [number, number, number];
const random = createRandom(seed);
const queries = makeQueries(n, seed);

const s3 = await startLocalS3({ port: 0 });
const regions = new Map<Mode, { stop(): Promise<void>; send: Send & { close(): void } }>();
try {
  const store = createModelStore(createS3ObjectStore(s3.options));
  for (const source of await readProjects(MODELS_FOLDER)) await publishModel(store, source);
  for (const mode of MODES) {
    const variables = { EDGETIER_REGION_BATCHING: mode, EDGETIER_REGION_THREADS: "1", EDGETIER_REGION_MAX_QUEUED: "10000", EDGETIER_REGION_MAX_QUEUE_SIZE: "10000" };
    const region = await startLocalRegion({ file: REGION_ENTRY, port: 0, store: s3.options, preload: ["intent"], variables, onLine: (line) => console.error(line) });
    regions.set(mode, { stop: () => region.stop(), send: createSender(region.url, 256) });
  }
  await measure();
} finally {
  for (const { stop, send } of regions.values()) {
    send.close();
    await stop();
  }
  await s3.stop();
}

async function measure(): Promise<void> {
  const rows: ({ case: string } & Record<string, number | string>)[] = [];
  const ratios: Record<string, number> = {};
  for (const connections of CONNECTIONS) {
    const perMode = new Map<Mode, number[]>(MODES.map((mode) => [mode, []]));
    for (let round = 0; round <= rounds; round++) {
      for (const mode of MODES) {
        const rate = await closedLoop(sendOf(mode), () => callOf(random.pick(queries)), connections, 1, check);
        if (round > 0) perMode.get(mode)?.push(rate); // the first warms up
      }
    }
    for (const [mode, rates] of perMode) {
      const paired = median(rates.map((rate, round) => rate / (perMode.get("off")?.[round] ?? Number.NaN)));
      if (mode === "adaptive") ratios[`closedLoopRatioAt${connections}`] = rounded(paired);
      rows.push({ case: `${mode}, ${connections} connections`, n: rounds, perSecond: rounded(median(rates)), ratioToOff: rounded(paired) });
    }
  }
  const highest = await highestRates();
  for (const [mode, rate] of highest) {
    for (const share of [0.5, 0.9]) rows.push({ case: `${mode}, ${share * 100} % of its highest rate`, perSecond: rounded(rate * share), ...figuresOf(await atRate(mode, rate * share)) });
  }
  const rateOf = (mode: Mode) => highest.get(mode) ?? Number.NaN;
  const figures = { batchedVsUnbatchedRatio: rounded(rateOf("adaptive") / rateOf("off")), ...Object.fromEntries(MODES.map((mode) => [`highestRateAt${BOUND_MS}Ms.${mode}`, rateOf(mode)])), ...ratios };
  await report({ name: "region", seed, n, packages: ["onnxruntime-node", "hono"], rows, figures });
}

/** The last rate of the ladder at which the p99 stays within the bound; a rung counts as failed when it fails twice. */
async function highestRates(): Promise<Map<Mode, number>> {
  const highest = new Map<Mode, number>();
  const climbing = new Set<Mode>(MODES);
  for (const rate of RATES) {
    for (const mode of MODES.filter((one) => climbing.has(one))) {
      const holds = (await atRate(mode, rate)).p99Ms <= BOUND_MS || (await atRate(mode, rate)).p99Ms <= BOUND_MS;
      console.error(`${mode}: ${rate} a second ${holds ? "holds" : "does not hold"} a p99 of ${BOUND_MS} ms`);
      if (holds) highest.set(mode, rate);
      else climbing.delete(mode);
    }
  }
  return highest;
}

async function atRate(mode: Mode, ratePerSecond: number): Promise<Latencies> {
  return await openLoop(sendOf(mode), queries.map(callOf), ratePerSecond, random, check);
}

function sendOf(mode: Mode): Send {
  const region = regions.get(mode);
  if (region === undefined) throw new Error(`no region runs with batching ${mode}`);
  return region.send;
}

function callOf(text: string): Call {
  return { path: "/v2/models/intent/infer", body: JSON.stringify({ inputs: [{ name: "input", datatype: "BYTES", shape: [1], data: [text] }] }) };
}

function check({ status, body }: Reply): void {
  if (status !== 200) throw new Error(`the region answered ${status}: ${body.slice(0, 200)}`);
}

function figuresOf({ n: samples, p50Ms, p95Ms, p99Ms }: Latencies): Record<string, number> {
  return { n: samples, p50Ms: rounded(p50Ms), p95Ms: rounded(p95Ms), p99Ms: rounded(p99Ms) };
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;
}
