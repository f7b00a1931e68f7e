// `npm run bench:cold`: cold start of fresh isolates, each in its own workerd process.
// Compares stock onnxruntime-web with a snapshot restored in the first request (full and stripped engine) and at module scope.
// An isolate's overhead is its first request minus the median of its requests 2 to 5. Only sessions are compared: inputs
// are created at module scope, and one response without a model precedes the first request.
import { parseArgs } from "node:util";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import { readDeploymentConfig } from "../../src/toolchain/deployment-config.ts";
import { summarizeLatencies } from "./lib/checked-load.ts";
import { type IsolateSample, measureIsolate, REQUESTS_PER_ISOLATE } from "./lib/cold-isolates.ts";
import {
  bundleColdWorkers,
  type ColdWorker,
  COLD_MODELS,
  type ColdModel,
  type StartupKind,
} from "./lib/cold-worker/bundle-cold-workers.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const { values } = parseArgs({
  options: {
    n: { type: "string", default: "40" },
    models: { type: "string", default: COLD_MODELS.join(",") },
    seed: { type: "string", default: "1" },
    help: { type: "boolean" },
  },
});
if (values.help === true) {
  console.log(
    `npm run bench:cold -- [--n isolates per model and way] [--models ${COLD_MODELS.join(",")}] [--seed s]`,
  );
  process.exit(0);
}
const [n, seed] = [Number(values.n), Number(values.seed)];
const models = values.models.split(",").map((name) => {
  const model = COLD_MODELS.find((known) => known === name);
  if (model === undefined)
    throw new Error(`--models: ${name} is none of ${COLD_MODELS.join(", ")}`);
  return model;
});
/** Sample count of the startup kinds between the first and the last. */
const intermediateCount = Math.min(n, Math.max(20, Math.floor(n / 6)));
const MiB = 2 ** 20;
/** Lower limit of the best overhead. Smaller values are the noise of two requests. */
const OVERHEAD_FLOOR_MS = 0.1;
const PROGRESS_EVERY_MS = 30_000;

const config = await readDeploymentConfig(PROJECT_ROOT);
const workers = (
  await bundleColdWorkers({ ...config, engine: "stripped", fallbackEngine: "never" }, console.error)
).filter(({ model }) => models.includes(model));
const samples = new Map(workers.map((worker) => [worker, [] as IsolateSample[]]));
const answers = new Map<string, string>();

// A warm-up loads the files into memory and compiles the code of this process.
for (const worker of workers) await measureIsolate(worker, seedsOf(n));
const startedAtMs = performance.now();
let toldAtMs = startedAtMs;
for (let index = 0; index < n; index++) {
  for (const worker of workers)
    if (isDue(worker.startupKind, index)) await recordSample(worker, index);
  if (performance.now() - toldAtMs < PROGRESS_EVERY_MS && index < n - 1) continue;
  toldAtMs = performance.now();
  const minutes = (toldAtMs - startedAtMs) / 60_000;
  console.error(
    `${index + 1} of ${n} after ${minutes.toFixed(1)} min, about ${((minutes * (n - index - 1)) / (index + 1)).toFixed(1)} min to go`,
  );
}

const rows = workers.map(toRow);
const figures = models.flatMap((model) =>
  Object.entries(computeFigures(model)).map(([name, value]) => [name, model, value] as const),
);
await writeBenchReport({
  name: "cold",
  seed,
  n,
  packages: ["onnxruntime-web", "workerd"],
  rows,
  figures: {
    coldOverheadP50Ratio: worstRatio("coldOverheadP50Ratio", Math.min),
    coldOverheadP99Ratio: worstRatio("coldOverheadP99Ratio", Math.min),
    firstOverTenthP99Ratio: worstRatio("firstOverTenthP99Ratio", Math.max),
    ...Object.fromEntries(figures.map(([name, model, value]) => [`${name}.${model}`, value])),
    engineGzipBytes:
      workers.find(({ startupKind: way }) => way === "module scope")?.engine.gzipBytes ??
      Number.NaN,
    bestOverheadFloorMs: OVERHEAD_FLOOR_MS,
  },
});

function seedsOf(index: number): number[] {
  return Array.from(
    { length: REQUESTS_PER_ISOLATE },
    (_, request) => seed * 1_000_000 + index * REQUESTS_PER_ISOLATE + request,
  );
}

/** Stock and module scope alternate; the kinds between them are spread evenly. */
function isDue(way: StartupKind, index: number): boolean {
  return (
    way === "stock" ||
    way === "module scope" ||
    Math.floor(((index + 1) * intermediateCount) / n) > Math.floor((index * intermediateCount) / n)
  );
}

/** @throws if another startup kind gave different answers for the same inputs */
async function recordSample(worker: ColdWorker, index: number): Promise<void> {
  const sample = await measureIsolate(worker, seedsOf(index));
  const key = `${worker.model} ${index}`;
  const known = answers.get(key) ?? sample.checksums;
  if (known !== sample.checksums)
    throw new Error(
      `${worker.model}, ${worker.startupKind}, isolate ${index}: other logits: ${sample.checksums} in place of ${known}`,
    );
  answers.set(key, known);
  samples.get(worker)?.push(sample);
}

interface Times {
  readonly first: readonly number[];
  readonly tenth: readonly number[];
  readonly earlyWarm: readonly number[];
  readonly overhead: readonly number[];
}

function computeTimes(worker: ColdWorker): Times {
  const taken = samples.get(worker) ?? [];
  const first = taken.map(({ latenciesMs }) => latenciesMs[0] ?? Number.NaN);
  const tenth = taken.map(({ latenciesMs }) => latenciesMs[REQUESTS_PER_ISOLATE - 1] ?? Number.NaN);
  const earlyWarm = taken.map(({ latenciesMs }) => median(latenciesMs.slice(1, 5)));
  return {
    first,
    tenth,
    earlyWarm,
    overhead: first.map((ms, index) => ms - (earlyWarm[index] ?? Number.NaN)),
  };
}

function toRow(worker: ColdWorker): Parameters<typeof writeBenchReport>[0]["rows"][number] {
  const { model, startupKind: way, engine, artifact: image } = worker;
  const taken = samples.get(worker) ?? [];
  const { first, tenth, earlyWarm, overhead } = computeTimes(worker);
  const percentiles = (name: string, times: readonly number[]) => {
    const { p50Ms, p95Ms, p99Ms } = summarizeLatencies(times);
    return {
      [`${name}P50Ms`]: roundToFourDigits(p50Ms),
      [`${name}P95Ms`]: roundToFourDigits(p95Ms),
      [`${name}P99Ms`]: roundToFourDigits(p99Ms),
    };
  };
  return {
    case: `${model}, ${way}`,
    n: taken.length,
    ...percentiles("first", first),
    ...percentiles("tenth", tenth),
    earlyWarmP50Ms: roundToFourDigits(median(earlyWarm)),
    ...percentiles("overhead", overhead),
    readyP50Ms: roundToFourDigits(median(taken.map(({ readyMs }) => readyMs))),
    engineBytes: engine.bytes,
    engineGzipBytes: engine.gzipBytes,
    imageBytes: image.bytes,
    imageGzipBytes: image.gzipBytes,
    peakProcessMiBP50: roundToFourDigits(median(taken.map(({ peakBytes }) => peakBytes / MiB))),
  };
}

function computeFigures(
  model: ColdModel,
): Readonly<
  Record<"coldOverheadP50Ratio" | "coldOverheadP99Ratio" | "firstOverTenthP99Ratio", number>
> {
  const timesIn = (way: StartupKind) =>
    computeTimes(
      workers.find((worker) => worker.model === model && worker.startupKind === way) as ColdWorker,
    );
  const [stock, best] = [timesIn("stock"), timesIn("module scope")];
  const ratio = (at: "p50Ms" | "p99Ms") =>
    roundToFourDigits(
      summarizeLatencies(stock.overhead)[at] /
        Math.max(summarizeLatencies(best.overhead)[at], OVERHEAD_FLOOR_MS),
    );
  return {
    coldOverheadP50Ratio: ratio("p50Ms"),
    coldOverheadP99Ratio: ratio("p99Ms"),
    firstOverTenthP99Ratio: roundToFourDigits(
      summarizeLatencies(best.first).p99Ms / summarizeLatencies(best.tenth).p99Ms,
    ),
  };
}

/** The worst ratio over all models. */
function worstRatio(name: string, choose: (...values: number[]) => number): number {
  return choose(...figures.flatMap(([figure, , value]) => (figure === name ? [value] : [])));
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return (
    ((sorted[Math.ceil(middle) - 1] ?? Number.NaN) + (sorted[Math.floor(middle)] ?? Number.NaN)) / 2
  );
}
