// `npm run bench:serve`: latency of the running system by tier and cache layer (open loop, Poisson arrivals, from the
// scheduled time). Also L1 hits per second, alternating with a Hono "hello" in the same isolate.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { generateQueries } from "../../src/cli/load/query-generator.ts";
import { startLocalSystem } from "../../src/cli/local/system.ts";
import { bundleWorker } from "../../src/cli/local/upload.ts";
import { startWorkerdEdge } from "../../src/cli/local/workerd-edge.ts";
import { predictResponseSchema } from "../../src/protocol/predict.ts";
import { formatRegionKey } from "../../src/region/region-keys.ts";
import { toS3Variables } from "../../src/registry/s3-config.ts";
import {
  type Call,
  closedLoop,
  createSender,
  openLoop,
  type Reply,
  type Send,
} from "./lib/checked-load.ts";
import { createRandom, createZipf } from "./lib/random.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const { values } = parseArgs({
  options: {
    n: { type: "string", default: "1000" },
    rate: { type: "string", default: "100" },
    seed: { type: "string", default: "1" },
    rounds: { type: "string", default: "5" },
    help: { type: "boolean" },
  },
});
if (values.help === true) {
  console.log(
    "npm run bench:serve -- [--n calls per case] [--rate calls a second] [--seed s] [--rounds of L1 against hello]",
  );
  process.exit(0);
}
const [n, rate, seed, rounds] = [
  Number(values.n),
  Number(values.rate),
  Number(values.seed),
  Number(values.rounds),
];
const DISTINCT_QUERIES = 10_000;
const WARM_UP_CALLS = 300;
const CONNECTIONS = 16;
const SECONDS_PER_ROUND = 3;

type Layer = "l1" | "l2" | "miss" | "bypass";
const random = createRandom(seed);
const folder = await mkdtemp(join(tmpdir(), "edgetier-bench-"));
const upload = await bundleWorker(join(folder, "worker.bundle"), {
  entry: "test/bench/lib/edge-with-hello.ts",
});
const rows: ({ case: string } & Record<string, number | string>)[] = [];
const figures: Record<string, number> = {};

try {
  const queries = generateQueries(DISTINCT_QUERIES, seed);
  await withSystem({}, async (send) => {
    const { edge, region } = await groupByTier(send, queries.slice(0, 3000));
    console.error(
      `${edge.length} of 3000 queries exit at the edge, ${region.length} go on to the region`,
    );
    await warmUp(send, [...edge, ...region]);
    await measure(send, "edge tier, cache off", draw(edge), "bypass");
    await measure(send, "region tier, cache off", draw(region), "bypass");
    await measure(send, "cascade, cache off", draw([...edge, ...region]), "bypass");

    const few = edge.slice(0, 200);
    for (const query of few) await send(predict(query, "use"));
    await measure(send, "L1 hit", draw(few), "l1");
    await measure(send, "L1 hit, GET", draw(few), "l1", (query) => ({
      path: `/v1/models/intent/predict?input=${encodeURIComponent(query)}`,
    }));
    const zipf = createZipf(random, DISTINCT_QUERIES, 1);
    await measure(
      send,
      `cascade, caches on, Zipf(1) over ${DISTINCT_QUERIES}`,
      Array.from({ length: n }, () => queries[zipf()] ?? ""),
    );
    await throughput(send, few);
  });
  await withSystem(
    { EDGETIER_L1_MAX_BYTES: "0", EDGETIER_CDN_CACHE: "off" },
    async (send, hasRedis) => {
      const few = queries.slice(0, 200);
      await warmUp(send, queries.slice(200, 500));
      for (const query of few) await send(predict(query, "use"));
      if (hasRedis) await measure(send, "L2 hit", draw(few), "l2");
      else rows.push({ case: "L2 hit", skipped: "no redis-server on this machine" });
    },
  );
} finally {
  await rm(folder, { recursive: true, force: true });
}
await writeBenchReport({
  name: "serve",
  seed,
  n,
  packages: ["hono", "onnxruntime-web", "onnxruntime-node", "wrangler"],
  rows,
  figures,
});

/** The system of `npm start`, with the Worker in workerd alone. */
async function withSystem(
  edgeVariables: Record<string, string>,
  use: (send: Send, hasRedis: boolean) => Promise<void>,
): Promise<void> {
  const system = await startLocalSystem({
    stateFolder: await mkdtemp(join(folder, "state-")),
    log: console.error,
  });
  const edge = await startWorkerdEdge(upload, {
    ...toS3Variables(system.store),
    EDGETIER_REGION_URL: system.urls.region ?? "",
    EDGETIER_REGION_KEY: formatRegionKey(system.regionKey),
    EDGETIER_REDIS_REST_URL: system.urls.redis ?? "",
    EDGETIER_REDIS_REST_TOKEN: system.redisToken ?? "",
    ...edgeVariables,
  });
  const send = createSender(edge.url);
  try {
    await use(send, system.urls.redis !== undefined);
  } finally {
    send.close();
    await edge.stop();
    await system.stop();
  }
}

function predict(query: string, cache: "use" | "bypass"): Call {
  return {
    path: "/v1/models/intent/predict",
    body: JSON.stringify({ inputs: query, parameters: { cache } }),
  };
}

function draw(from: readonly string[]): string[] {
  return Array.from({ length: n }, () => random.pick(from));
}

/** Splits queries by the tier that answers them. */
async function groupByTier(
  send: Send,
  queries: readonly string[],
): Promise<{ edge: string[]; region: string[] }> {
  const edge: string[] = [];
  const region: string[] = [];
  for (const query of queries) {
    const reply = await send(predict(query, "bypass"));
    assertOk(reply);
    const output = predictResponseSchema.parse(JSON.parse(reply.body)).outputs[0];
    (output?.tier.startsWith("edge") === true ? edge : region).push(query);
  }
  return { edge, region };
}

async function warmUp(send: Send, queries: readonly string[]): Promise<void> {
  for (let call = 0; call < WARM_UP_CALLS; call++)
    await send(predict(random.pick(queries), "bypass"));
}

/** @param layer expected source of at least 99 of 100 replies, because L2 is abandoned after a timeout; any by default */
async function measure(
  send: Send,
  name: string,
  queries: readonly string[],
  layer?: Layer,
  callOf = (query: string) => predict(query, layer === "bypass" ? "bypass" : "use"),
): Promise<void> {
  const layers = new Map<string, number>();
  const check = (reply: Reply) => {
    assertOk(reply);
    const from = String(reply.headers["x-edgetier-cache"]);
    layers.set(from, (layers.get(from) ?? 0) + 1);
  };
  const {
    n: count,
    p50Ms,
    p95Ms,
    p99Ms,
    maxMs,
  } = await openLoop(send, queries.map(callOf), rate, random, check);
  if (layer !== undefined && (layers.get(layer) ?? 0) < 0.99 * queries.length)
    throw new Error(`${name}: replies came from ${[...layers].join("; ")}`);
  const shares =
    layer === undefined
      ? Object.fromEntries(
          [...layers].map(([from, count]) => [
            `${from}Share`,
            roundToFourDigits(count / queries.length),
          ]),
        )
      : {};
  rows.push({ case: name, ratePerSecond: rate, n: count, p50Ms, p95Ms, p99Ms, maxMs, ...shares });
  console.error(`${name}: p50 ${roundToFourDigits(p50Ms)} ms, p99 ${roundToFourDigits(p99Ms)} ms`);
}

/** L1 hits and hello alternate, so that the machine's state affects both alike. */
async function throughput(send: Send, queries: readonly string[]): Promise<void> {
  const ratios: number[] = [];
  const totals = { l1: 0, hello: 0 };
  for (let round = 0; round < rounds; round++) {
    const l1 = await closedLoop(
      send,
      () => predict(random.pick(queries), "use"),
      CONNECTIONS,
      SECONDS_PER_ROUND,
      assertOk,
    );
    const hello = await closedLoop(
      send,
      () => ({ path: "/hello" }),
      CONNECTIONS,
      SECONDS_PER_ROUND,
      assertOk,
    );
    ratios.push(l1 / hello);
    totals.l1 += l1 / rounds;
    totals.hello += hello / rounds;
  }
  rows.push(
    { case: "L1 hit, closed loop", requestsPerSecond: roundToFourDigits(totals.l1) },
    { case: "Hono hello, closed loop", requestsPerSecond: roundToFourDigits(totals.hello) },
  );
  figures["l1VsHelloRatio"] =
    ratios.toSorted((a, b) => a - b)[Math.floor(ratios.length / 2)] ?? Number.NaN;
}

function assertOk(reply: Reply): void {
  if (reply.status !== 200) throw new Error(`status ${reply.status}: ${reply.body.slice(0, 200)}`);
}
