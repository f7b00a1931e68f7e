// The region under load: `npm run bench:region`. Open loop, Poisson arrivals, latency from the scheduled time. Compared
// systems run concurrently and are called alternately, so that the machine's state affects all alike.
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { reasonOf } from "../../src/core/errors.ts";
import { readProjects } from "../../src/toolchain/project.ts";
import { MODELS_FOLDER } from "../../src/cli/local/paths.ts";
import { startLocalS3 } from "../../src/cli/local/s3.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { type PublishSource, publishModel } from "../../src/registry/publish.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { createAlexNet } from "./lib/alexnet.ts";
import { createMobileNet } from "./lib/mobilenet.ts";
import { generateQueries } from "../../src/cli/load/query-generator.ts";
import { createRandom } from "./lib/random.ts";
import { CONFIDENCE, MIN_P99_SAMPLES } from "../../src/cli/load/percentile-bound.ts";
import { writeBenchReport } from "./lib/report.ts";
import { findPeers } from "./peers/find-peers.ts";
import { measureBareSession } from "./region/bare-session.ts";
import type { BenchContext, PartResult } from "./region/bench-context.ts";
import { P99_BOUND_MS, type TrialSettings } from "./region/compare-cases.ts";
import { compareEncodings, identityModel } from "./region/encodings.ts";
import { compareInstances } from "./region/instances.ts";
import { comparePeers } from "./region/peers.ts";
import { comparePolicies } from "./region/policies.ts";
import {
  type Encoding,
  type GraphModel,
  readGraphModel,
  INTENT_TOKENS,
  createTensorWorkload,
  createTextWorkload,
  createNoiseWorkload,
  createNoiseTensor,
  pixelSpecOf,
  PIXELS_INPUT,
  createProject,
} from "./region/workload.ts";

const PARTS = ["intent", "conv", "json", "instances", "peer"] as const;
type BenchPart = (typeof PARTS)[number];
const DISTINCT_TEXTS = 2_000;

const { values } = parseArgs({
  options: {
    only: { type: "string", default: PARTS.join(",") },
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "2" },
    seed: { type: "string", default: "1" },
    "peer-python": { type: "string" },
    quick: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(
    `npm run bench:region -- [--only ${PARTS.join(",")}] [--seconds of a trial] [--rounds] [--seed number]\n  [--peer-python of the peers, or EDGETIER_BENCH_PYTHON; node test/bench/peers/install.ts makes one]\n  [--quick: a smoke run, whose figures mean nothing]\nKept is a run of all parts but the last, and one of the last.`,
  );
  process.exit(0);
}
const asked = values.only.split(",");
const unknown = asked.filter((part) => !PARTS.some((one) => one === part));
if (unknown.length > 0)
  throw new Error(`--only: there is no ${unknown.join(", ")}; there are ${PARTS.join(", ")}`);
const seed = Number(values.seed);
const random = createRandom(seed);
const full = {
  secondsPerTrial: Number(values.seconds),
  samplesPerTrial: MIN_P99_SAMPLES,
  confidence: CONFIDENCE,
  resolution: 1.04,
  rounds: Number(values.rounds),
  random,
};
const measuring: TrialSettings = values.quick
  ? {
      ...full,
      secondsPerTrial: 0.3,
      samplesPerTrial: 100,
      confidence: 0.5,
      resolution: 1.3,
      rounds: 1,
    }
  : full;

const s3 = await startLocalS3({ port: 0 });
try {
  const store = createModelStore(createS3ObjectStore(s3.options));
  const intent = (await readProjects(MODELS_FOLDER)).find(
    ({ project }) => project.model === "intent",
  );
  if (intent === undefined) throw new Error("there is no model intent");
  const convolutional = makeConvolutional();
  for (const source of [intent, ...[identityModel, ...convolutional].map(createProject)])
    await publishModel(store, source);
  await runPart({ store: s3.options, trialSettings: measuring }, intent, convolutional);
} finally {
  await s3.stop();
}

async function runPart(
  bench: BenchContext,
  intent: PublishSource,
  convolutional: readonly GraphModel[],
): Promise<void> {
  const texts = generateQueries(DISTINCT_TEXTS, seed);
  const results: PartResult[] = [];
  const besidePeers: PartResult[] = [];
  /** A failing part loses only its own rows. */
  const measure = async (part: BenchPart, title: string, measured: () => Promise<PartResult>) => {
    if (!asked.includes(part)) return;
    console.error(`\n${title}`);
    const own = part === "peer" ? besidePeers : results;
    await measured().then(
      (result) => own.push(result),
      (error: unknown) => {
        console.error(error);
        own.push({
          rows: [],
          figures: {},
          notes: [`Left out: ${title}, which failed: ${reasonOf(error)}`],
        });
        process.exitCode = 1;
      },
    );
  };
  const tokens = (rows: number) => ({
    datatype: "INT64" as const,
    shape: [rows, INTENT_TOKENS],
    data: new BigInt64Array(rows * INTENT_TOKENS).fill(1n),
  });
  await measure("intent", "intent alone", () =>
    measureBareSession(readGraphModel(intent), (rows) => ({
      input_ids: tokens(rows),
      attention_mask: tokens(rows),
    })),
  );
  await measure("intent", "intent by policy", () =>
    comparePolicies(bench, createTextWorkload(texts)),
  );
  for (const model of convolutional) {
    await measure("conv", `${model.name} alone`, () =>
      measureBareSession(model, (rows) => ({
        [PIXELS_INPUT]: createNoiseTensor(pixelSpecOf(model), rows, random),
      })),
    );
    await measure("conv", `${model.name} by policy`, () =>
      comparePolicies(bench, createNoiseWorkload(model.name, pixelSpecOf(model), random, "binary")),
    );
  }
  await measure("json", "JSON and binary", () => compareEncodings(bench));
  await measure("instances", "instances", () => compareInstances(bench, createTextWorkload(texts)));
  const peers = asked.includes("peer")
    ? await findPeers(values["peer-python"] ?? process.env["EDGETIER_BENCH_PYTHON"])
    : { peers: [], missing: [] };
  await measure("peer", "intent and its peers", () =>
    comparePeers(bench, peers, readGraphModel(intent), (encoding) =>
      createTensorWorkload(intent, texts, encoding),
    ),
  );
  for (const model of convolutional.slice(0, 1)) {
    const workloadIn = (encoding: Encoding) =>
      encoding === "binary"
        ? createNoiseWorkload(model.name, pixelSpecOf(model), random, encoding)
        : undefined;
    await measure("peer", `${model.name} and its peers`, () =>
      comparePeers(bench, peers, model, workloadIn),
    );
  }
  if (results.length > 0)
    await reportParts(
      "region",
      results,
      PARTS.every((part) => part === "peer" || asked.includes(part)),
    );
  if (besidePeers.length > 0) await reportParts("region-peers", besidePeers, true);
}

async function reportParts(
  name: string,
  results: readonly PartResult[],
  isWhole: boolean,
): Promise<void> {
  const all: Record<string, number> = Object.assign({}, ...results.map((result) => result.figures));
  const figures = Object.fromEntries(
    Object.entries(all).filter(([, value]) => Number.isFinite(value)),
  ); // no figure of what never held
  const startingWith = (prefix: string) =>
    Object.entries(figures).flatMap(([name, value]) => (name.startsWith(prefix) ? [value] : []));
  const [batched, versusPeers] = [
    startingWith("batchedVsUnbatchedRatio."),
    startingWith("vsPeerRatio."),
  ];
  const headlines = {
    // The model with the largest ratio; each model's own ratio follows.
    ...(batched.length > 0 && { batchedVsUnbatchedRatio: Math.max(...batched) }),
    // The model and the peer that compare best with the region.
    ...(versusPeers.length > 0 && { vsPeerRatio: Math.min(...versusPeers) }),
  };
  await writeBenchReport({
    name,
    isSaved: !values.quick && isWhole,
    seed,
    n: measuring.samplesPerTrial,
    packages: ["onnxruntime-node", "hono"],
    rows: results.flatMap(({ rows }) => rows),
    figures: { ...headlines, ...figures },
    notes: [
      `Client and server share ${availableParallelism()} cores: clientCores and serverCores say who takes how much of them. Where they come near that sum, the machine is the limit, and sentLateP99Ms, how late the client itself sends, is part of every latency.`,
      `A highest rate is one at which ${P99_BOUND_MS} ms bound the p99 with ${measuring.confidence * 100} % confidence. Sessions have one thread an operator. A second of load that is not counted comes before each trial.`,
      ...new Set(results.flatMap(({ notes = [] }) => notes)),
    ],
    otherVersions: Object.assign({}, ...results.map(({ otherVersions = {} }) => otherVersions)),
  });
}

/** One whose time is its weights, so that a batch shares the reading of them, and one whose time is its products. */
function makeConvolutional(): GraphModel[] {
  const [resolution, classes] = [64, 200];
  const port = (name: string, shape: readonly number[]) => ({
    name,
    datatype: "FP32" as const,
    shape,
  });
  const modelOf = (name: string, graph: Uint8Array, size: number): GraphModel => ({
    name,
    graph,
    inputs: [port(PIXELS_INPUT, [-1, 3, size, size])],
    outputs: [port("logits", [-1, classes])],
  });
  return [
    modelOf(
      "alexnet",
      createAlexNet({ seed, width: 0.5, hidden: 4096, resolution, classes }),
      resolution,
    ),
    modelOf("mobilenet", createMobileNet({ seed, width: 3, resolution: 32, classes }), 32),
  ];
}
