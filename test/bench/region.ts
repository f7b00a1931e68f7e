// Region under load: `npm run bench:region`. Open loop, Poisson arrivals, latency from the scheduled time. Compared systems
// run concurrently and are called alternately, so that the machine's state affects all alike.
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { CONFIDENCE, MIN_P99_SAMPLES } from "../../src/cli/load/percentile-bound.ts";
import { generateQueries } from "../../src/cli/load/query-generator.ts";
import { MODELS_FOLDER } from "../../src/cli/local/paths.ts";
import { startLocalS3 } from "../../src/cli/local/s3.ts";
import { reasonOf } from "../../src/core/errors.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { type PublishSource, publishModel } from "../../src/registry/publish.ts";
import { readProjects } from "../../src/toolchain/project.ts";
import { createRandom } from "./lib/random.ts";
import { writeBenchReport } from "./lib/report.ts";
import { findPeers, type PeerDiscovery } from "./peers/find-peers.ts";
import { measureBareSession } from "./region/bare-session.ts";
import type { BenchContext, PartResult } from "./region/bench-context.ts";
import { P99_BOUND_MS, type TrialSettings } from "./region/compare-cases.ts";
import { createConvolutionalModels } from "./region/convolutional-models.ts";
import { compareEncodings, identityModel } from "./region/encodings.ts";
import { compareInstances } from "./region/instances.ts";
import { comparePeers } from "./region/peers.ts";
import { comparePolicies } from "./region/policies.ts";
import {
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
    `npm run bench:region -- [--only ${PARTS.join(",")}] [--seconds per trial] [--rounds] [--seed number]\n  [--peer-python of the peers, or EDGETIER_BENCH_PYTHON; node test/bench/peers/install.ts creates one]\n  [--quick: a smoke run, whose figures mean nothing]\nResults are saved for a run of all parts except peer, and for a run of peer.`,
  );
  process.exit(0);
}
const selectedParts = values.only.split(",");
const unknownParts = selectedParts.filter((part) => !PARTS.some((known) => known === part));
if (unknownParts.length > 0)
  throw new Error(`--only: unknown part ${unknownParts.join(", ")}; expected ${PARTS.join(", ")}.`);
const seed = Number(values.seed);
const random = createRandom(seed);
const fullSettings = {
  secondsPerTrial: Number(values.seconds),
  samplesPerTrial: MIN_P99_SAMPLES,
  confidence: CONFIDENCE,
  resolution: 1.04,
  rounds: Number(values.rounds),
  random,
};
const trialSettings: TrialSettings = values.quick
  ? {
      ...fullSettings,
      secondsPerTrial: 0.3,
      samplesPerTrial: 100,
      confidence: 0.5,
      resolution: 1.3,
      rounds: 1,
    }
  : fullSettings;

const s3 = await startLocalS3({ port: 0 });
try {
  const store = createModelStore(createS3ObjectStore(s3.options));
  const intent = (await readProjects(MODELS_FOLDER)).find(
    ({ project }) => project.model === "intent",
  );
  if (intent === undefined) throw new Error(`${MODELS_FOLDER} contains no model intent`);
  const convolutionalModels = createConvolutionalModels(seed);
  for (const source of [intent, ...[identityModel, ...convolutionalModels].map(createProject)])
    await publishModel(store, source);
  await runParts({ store: s3.options, trialSettings }, intent, convolutionalModels);
} finally {
  await s3.stop();
}

/** A part of the benchmark: the `--only` name it belongs to, its title, and its measurement. */
interface Measurement {
  readonly part: BenchPart;
  readonly title: string;
  measure(): Promise<PartResult>;
}

async function runParts(
  bench: BenchContext,
  intent: PublishSource,
  convolutionalModels: readonly GraphModel[],
): Promise<void> {
  const texts = generateQueries(DISTINCT_TEXTS, seed);
  const results = await runMeasurements([
    ...listIntentMeasurements(bench, intent, texts),
    ...convolutionalModels.flatMap((model) => listConvolutionalMeasurements(bench, model)),
    { part: "json", title: "JSON and binary", measure: () => compareEncodings(bench) },
    {
      part: "instances",
      title: "instances",
      measure: () => compareInstances(bench, createTextWorkload(texts)),
    },
  ]);
  const peerResults = selectedParts.includes("peer")
    ? await runMeasurements(
        listPeerMeasurements(
          bench,
          await findPeers(values["peer-python"] ?? process.env["EDGETIER_BENCH_PYTHON"]),
          { intent, texts, convolutionalModels },
        ),
      )
    : [];
  const isWhole = PARTS.every((part) => part === "peer" || selectedParts.includes(part));
  if (results.length > 0) await reportParts("region", results, isWhole);
  if (peerResults.length > 0) await reportParts("region-peers", peerResults, true);
}

/** Runs the measurements of the selected parts. A failing measurement loses only its own rows. */
async function runMeasurements(measurements: readonly Measurement[]): Promise<PartResult[]> {
  const results: PartResult[] = [];
  for (const { part, title, measure } of measurements) {
    if (!selectedParts.includes(part)) continue;
    console.error(`\n${title}`);
    try {
      results.push(await measure());
    } catch (error) {
      console.error(error);
      results.push({
        rows: [],
        figures: {},
        notes: [`Left out: ${title}, which failed: ${reasonOf(error)}`],
      });
      process.exitCode = 1;
    }
  }
  return results;
}

function listIntentMeasurements(
  bench: BenchContext,
  intent: PublishSource,
  texts: readonly string[],
): Measurement[] {
  const createTokens = (rows: number) => ({
    datatype: "INT64" as const,
    shape: [rows, INTENT_TOKENS],
    data: new BigInt64Array(rows * INTENT_TOKENS).fill(1n),
  });
  return [
    {
      part: "intent",
      title: "intent alone",
      measure: () =>
        measureBareSession(readGraphModel(intent), (rows) => ({
          input_ids: createTokens(rows),
          attention_mask: createTokens(rows),
        })),
    },
    {
      part: "intent",
      title: "intent by policy",
      measure: () => comparePolicies(bench, createTextWorkload(texts)),
    },
  ];
}

function listConvolutionalMeasurements(bench: BenchContext, model: GraphModel): Measurement[] {
  const pixelSpec = pixelSpecOf(model);
  return [
    {
      part: "conv",
      title: `${model.name} alone`,
      measure: () =>
        measureBareSession(model, (rows) => ({
          [PIXELS_INPUT]: createNoiseTensor(pixelSpec, rows, random),
        })),
    },
    {
      part: "conv",
      title: `${model.name} by policy`,
      measure: () =>
        comparePolicies(bench, createNoiseWorkload(model.name, pixelSpec, random, "binary")),
    },
  ];
}

/** Peers are compared on intent and, in binary only, on the first convolutional model. */
function listPeerMeasurements(
  bench: BenchContext,
  peers: PeerDiscovery,
  models: {
    readonly intent: PublishSource;
    readonly texts: readonly string[];
    readonly convolutionalModels: readonly GraphModel[];
  },
): Measurement[] {
  const { intent, texts, convolutionalModels } = models;
  const intentMeasurement: Measurement = {
    part: "peer",
    title: "intent and its peers",
    measure: () =>
      comparePeers(bench, peers, readGraphModel(intent), (encoding) =>
        createTensorWorkload(intent, texts, encoding),
      ),
  };
  const convolutionalMeasurements = convolutionalModels.slice(0, 1).map((model): Measurement => ({
    part: "peer",
    title: `${model.name} and its peers`,
    measure: () =>
      comparePeers(bench, peers, model, (encoding) =>
        encoding === "binary"
          ? createNoiseWorkload(model.name, pixelSpecOf(model), random, encoding)
          : undefined,
      ),
  }));
  return [intentMeasurement, ...convolutionalMeasurements];
}

async function reportParts(
  name: string,
  results: readonly PartResult[],
  isWhole: boolean,
): Promise<void> {
  const allFigures: Record<string, number> = Object.assign(
    {},
    ...results.map((result) => result.figures),
  );
  // A rate that was never sustained is NaN and has no figure.
  const figures = Object.fromEntries(
    Object.entries(allFigures).filter(([, value]) => Number.isFinite(value)),
  );
  const readFigures = (prefix: string) =>
    Object.entries(figures).flatMap(([name, value]) => (name.startsWith(prefix) ? [value] : []));
  const batchingRatios = readFigures("batchedVsUnbatchedRatio.");
  const peerRatios = readFigures("vsPeerRatio.");
  const headlines = {
    // The model with the largest ratio; each model's own ratio follows.
    ...(batchingRatios.length > 0 && { batchedVsUnbatchedRatio: Math.max(...batchingRatios) }),
    // The model and the peer that compare best with the region.
    ...(peerRatios.length > 0 && { vsPeerRatio: Math.min(...peerRatios) }),
  };
  await writeBenchReport({
    name,
    isSaved: !values.quick && isWhole,
    seed,
    n: trialSettings.samplesPerTrial,
    packages: ["onnxruntime-node", "hono"],
    rows: results.flatMap(({ rows }) => rows),
    figures: { ...headlines, ...figures },
    notes: [
      `Client and server share ${availableParallelism()} cores: clientCores and serverCores say who takes how much of them. Where they come near that sum, the machine is the limit, and sentLateP99Ms, how late the client itself sends, is part of every latency.`,
      `A highest rate is one at which ${P99_BOUND_MS} ms bound the p99 with ${trialSettings.confidence * 100} % confidence. Sessions have one thread an operator. A second of load that is not counted comes before each trial.`,
      ...new Set(results.flatMap(({ notes = [] }) => notes)),
    ],
    otherVersions: Object.assign({}, ...results.map(({ otherVersions = {} }) => otherVersions)),
  });
}
