// `npm run bench:metrics`: cost and completeness of metrics. Edges with and without an aggregator alternate, each a Worker in
// workerd alone. Requests sent to several isolates are compared with the counts of GET /metrics.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startLocalSystem } from "../../src/cli/local/system.ts";
import { bundleWorker } from "../../src/cli/local/upload.ts";
import { toS3Variables } from "../../src/registry/s3-config.ts";
import { writeBenchReport } from "./lib/report.ts";
import { compareMetricsCost } from "./metrics/cost.ts";
import { measureCountAccuracy } from "./metrics/count-accuracy.ts";

const { values } = parseArgs({
  options: {
    n: { type: "string", default: "50000" },
    isolates: { type: "string", default: "8" },
    pairs: { type: "string", default: "8" },
    turns: { type: "string", default: "5" },
    rate: { type: "string", default: "200" },
    seed: { type: "string", default: "1" },
    smoke: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(
    "npm run bench:metrics -- [--n requests to count] [--isolates] [--pairs of edges] [--turns of each] [--rate calls a second, for the latencies] [--seed s] [--smoke: nothing is written]",
  );
  process.exit(0);
}
const [n, isolates, pairs, turns, rate, seed] = [
  Number(values.n),
  Number(values.isolates),
  Number(values.pairs),
  Number(values.turns),
  Number(values.rate),
  Number(values.seed),
];

const folder = await mkdtemp(join(tmpdir(), "edgetier-bench-"));
const upload = await bundleWorker(join(folder, "worker.bundle"));
const system = await startLocalSystem({
  stateFolder: join(folder, "state"),
  withRegion: false,
  withRedis: false,
  log: console.error,
});
try {
  const fixture = {
    upload,
    folder,
    variables: { ...toS3Variables(system.store), EDGETIER_METRICS_SCOPE: "metadata" },
    seed,
  };
  const counted = await measureCountAccuracy(fixture, { requests: n, isolates });
  const cost = await compareMetricsCost(fixture, { pairs, turns, rate });
  const notes = [
    "Client, isolates and aggregator share two cores and one workerd process: deployed, the aggregator's part of the cost is another machine's.",
    "A killed process takes along what its isolates have counted since they last reported, and nobody can say how much that was.",
  ];
  await writeBenchReport({
    name: "metrics",
    seed,
    n,
    packages: ["hono", "wrangler"],
    notes,
    isSaved: !values.smoke,
    rows: [...counted.rows, ...cost.rows],
    figures: { ...counted.figures, ...cost.figures },
  });
} finally {
  await system.stop();
  await rm(folder, { recursive: true, force: true });
}
