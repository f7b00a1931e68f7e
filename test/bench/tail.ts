// `npm run bench:tail`: what a slow share of calls, a dead region and a silent Redis cost, and what the caches save.
import { parseArgs } from "node:util";
import { createRandom } from "./lib/random.ts";
import { report, rounded } from "./lib/report.ts";
import { queriesForTheRegion } from "./tail/calls.ts";
import { measureFrozenRedis } from "./tail/frozen-redis.ts";
import { measureRegionLoss } from "./tail/region-loss.ts";
import { measureSlowCalls } from "./tail/slow-calls.ts";
import { startTailSystem } from "./tail/system.ts";
import { measureZipf } from "./tail/zipf.ts";

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
const [n, rate, seed, wayMs] = [
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
const system = await startTailSystem(wayMs);
try {
  const finder = await system.startEdge();
  const queries = await queriesForTheRegion(finder.url, 200, seed);
  await finder.stop();

  const [off, on] = await measureSlowCalls(system, queries, { n, rate, wayMs, random });
  rows.push(
    { case: "1 % of region calls 50 times slower, no hedging", ...off },
    { case: "the same, with hedging", ...on },
  );
  figures["p999ReductionRatio"] = rounded(off.p999Ms / on.p999Ms);
  figures["extraCallsShare"] = rounded(on.extraCallsShare);

  const loss = await measureRegionLoss(system, queries, { rate: Math.ceil(rate / 2), random });
  rows.push({ case: "a region killed and revived", ...loss });
  figures["errorsDuringRegionLoss"] = loss.errors;
  figures["degradedDuringRegionLoss"] = loss.degraded;

  if (system.redis !== undefined) {
    const [answers, frozen] = await measureFrozenRedis(system, system.redis, queries, {
      rate,
      random,
      timeoutMs: REDIS_TIMEOUT_MS,
    });
    rows.push(
      { case: "L2 on, Redis answers", ...answers },
      { case: "L2 on, Redis frozen", ...frozen },
    );
    figures["frozenRedisAddedP99Ms"] = rounded(frozen.p99Ms - answers.p99Ms);
    figures["frozenRedisErrors"] = frozen.errors;
  }

  const layers = await measureZipf(system, { keys: KEYS, n: ZIPF_CALLS, rate, seed, random });
  rows.push(
    ...layers.map(({ layer, ...rest }) => ({
      case: `Zipf(1.0) over ${KEYS} keys: ${layer}`,
      ...rest,
    })),
  );
  figures["zipfHitShare"] = rounded(
    layers.filter(({ layer }) => layer !== "miss").reduce((sum, { share }) => sum + share, 0),
  );
} finally {
  await system.stop();
}
await report({
  name: "tail",
  seed,
  n,
  packages: ["hono", "onnxruntime-web", "onnxruntime-node", "wrangler"],
  notes: [
    `Open loop, ${rate} calls a second (half of it while a region is lost), latency from the scheduled moment; each region is ${wayMs} ms away, and every request needs one but those of Zipf's law.`,
  ],
  isKept: !values.quick,
  rows,
  figures,
});
