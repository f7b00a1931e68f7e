// `npm run bench:tail`: what a slow share of calls, a dead region and a silent Redis cost, and what the caches save.
import { parseArgs } from "node:util";
import { createRandom } from "./lib/random.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";
import { findEscalatedQueries } from "./tail/calls.ts";
import { measureHedging } from "./tail/hedging.ts";
import { measureRegionFailure } from "./tail/region-failure.ts";
import { startTailSystem } from "./tail/tail-system.ts";
import { measureUnresponsiveRedis } from "./tail/unresponsive-redis.ts";
import { measureCacheLayers } from "./tail/zipf.ts";

const { values } = parseArgs({
  options: {
    n: { type: "string", default: "12000" },
    rate: { type: "string", default: "80" },
    seed: { type: "string", default: "1" },
    "way-ms": { type: "string", default: "30" },
    quick: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(
    "npm run bench:tail -- [--n calls with hedging, and as many without] [--rate calls a second] [--seed s] [--way-ms to a region and back] [--quick: little of everything, nothing kept]",
  );
  process.exit(0);
}
const [n, rate, seed, networkDelayMs] = [
  values.quick ? 1_200 : Number(values.n),
  Number(values.rate),
  Number(values.seed),
  Number(values["way-ms"]),
];
const KEYS = 100_000;
const ZIPF_CALLS = values.quick ? 1_000 : 12_000;
const REDIS_TIMEOUT_MS = 50;

const random = createRandom(seed);
const rows: ({ case: string } & Record<string, number | string>)[] = [];
const figures: Record<string, number> = {};
const system = await startTailSystem(networkDelayMs);
try {
  const finder = await system.startEdge();
  const queries = await findEscalatedQueries(finder.url, 200, seed);
  await finder.stop();

  const [off, on] = await measureHedging(system, queries, { n, rate, networkDelayMs, random });
  rows.push(
    { case: "1 % of region calls 50 times slower, no hedging", ...off },
    { case: "the same, with hedging", ...on },
  );
  figures["p999ReductionRatio"] = roundToFourDigits(off.p999Ms / on.p999Ms);
  figures["extraCallsShare"] = roundToFourDigits(on.extraCallsShare);

  const loss = await measureRegionFailure(system, queries, { rate: Math.ceil(rate / 2), random });
  rows.push({ case: "a region killed and revived", ...loss });
  figures["errorsDuringRegionLoss"] = loss.errors;
  figures["degradedDuringRegionLoss"] = loss.degraded;

  if (system.redis !== undefined) {
    const [answers, frozen] = await measureUnresponsiveRedis(system, system.redis, queries, {
      rate,
      random,
      timeoutMs: REDIS_TIMEOUT_MS,
    });
    rows.push(
      { case: "L2 on, Redis answers", ...answers },
      { case: "L2 on, Redis frozen", ...frozen },
    );
    figures["frozenRedisAddedP99Ms"] = roundToFourDigits(frozen.p99Ms - answers.p99Ms);
    figures["frozenRedisErrors"] = frozen.errors;
  }

  const layers = await measureCacheLayers(system, {
    keys: KEYS,
    n: ZIPF_CALLS,
    rate,
    seed,
    random,
  });
  rows.push(
    ...layers.map(({ layer, ...rest }) => ({
      case: `Zipf(1.0) over ${KEYS} keys: ${layer}`,
      ...rest,
    })),
  );
  figures["zipfHitShare"] = roundToFourDigits(
    layers.filter(({ layer }) => layer !== "miss").reduce((sum, { share }) => sum + share, 0),
  );
} finally {
  await system.stop();
}
await writeBenchReport({
  name: "tail",
  seed,
  n,
  packages: ["hono", "onnxruntime-web", "onnxruntime-node", "wrangler"],
  notes: [
    `Open loop, ${rate} calls a second (half of it while a region is lost), latency from the scheduled moment; each region is ${networkDelayMs} ms away, and every request needs one but those of Zipf's law.`,
  ],
  isSaved: !values.quick,
  rows,
  figures,
});
