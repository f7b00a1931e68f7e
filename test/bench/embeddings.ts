// `npm run bench:embeddings`: compares the sentence encoder's INT8 tier with its FP32 original, and measures it deployed. Needs
// the output of models/minilm/recipe: [--project <folder>] [--fp32 <encoder.onnx>] [--original <original.f32>] [--smoke]
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ENGINE_FOLDER, PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import { byteView } from "../../src/core/bytes.ts";
import type { NamedTensors } from "../../src/core/tensor.ts";
import type { EmbeddingProject } from "../../src/registry/manifest.ts";
import { embeddingTask } from "../../src/tasks/embedding.ts";
import { prepareEngine } from "../../src/toolchain/engine/prepare-engine.ts";
import { createWorkerdRunner } from "../../src/toolchain/evaluate/harness/workerd-runner.ts";
import { compareLatency, quantile } from "../../src/toolchain/evaluate/latency.ts";
import { createNodeRunner } from "../../src/toolchain/evaluate/node-runner.ts";
import { requireProjectFile } from "../../src/toolchain/evaluate/project-tier.ts";
import { readProject } from "../../src/toolchain/project.ts";
import { seededRandom } from "../../src/toolchain/seeded-random.ts";
import { measureDeployed } from "./embeddings/measure-deployed.ts";
import {
  pairwiseCosines,
  type LabeledVectors,
  type LabeledText,
  measureRetrievalAccuracy,
  computeVectors,
} from "./embeddings/vectors.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const SEED = 1;
const LENGTHS = [4, 8, 16, 32, 64, 128, 256];
const { values: options } = parseArgs({
  options: {
    project: { type: "string", default: join(PROJECT_ROOT, "models/minilm") },
    fp32: { type: "string", default: join(PROJECT_ROOT, "dist/minilm/encoder.onnx") },
    original: { type: "string", default: join(PROJECT_ROOT, "dist/minilm/original.f32") },
    smoke: { type: "boolean", default: false },
  },
});
const { smoke: isSmoke } = options;
/** Index texts per label, queries, latency rounds, and cold isolates. */
const [BY_LABEL, QUERIES, ROUNDS, ISOLATES] = isSmoke ? [1, 60, 3, 1] : [10, 1_000, 40, 20];
const log = (line: string) => console.error(line);

const source = await readProject(options.project);
if (source.project.task !== "embedding") throw new TypeError(`${options.project} has another task`);
const project: EmbeddingProject = source.project;
const [tier] = project.tiers;
if (tier === undefined) throw new TypeError("a project has a tier");
const { encode } = embeddingTask.createPreprocessor({
  ...tier.preprocessor,
  artifact: requireProjectFile(source, tier.preprocessor.artifact),
});
const graphs = {
  int8: requireProjectFile(source, tier.graph),
  fp32: new Uint8Array(await readFile(options.fp32)),
};

const readTexts = async (part: string): Promise<LabeledText[]> =>
  (
    await readFile(
      join(
        process.env["EDGETIER_DATA_DIR"] ?? join(PROJECT_ROOT, "../shared/data"),
        `clinc150/${part}.jsonl`,
      ),
      "utf8",
    )
  )
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
const lines = await readTexts("val");
const inScope = lines.filter(({ label }) => label !== "oos");
const queries = inScope.slice(0, QUERIES);
const index = [...Map.groupBy(await readTexts("train"), ({ label }) => label)].flatMap(
  ([label, texts]) => (label === "oos" ? [] : texts.slice(0, BY_LABEL)),
);
const toTensors = (texts: readonly LabeledText[]) =>
  texts.map(({ text }) => encode([{ kind: "text", text }]));

const { sha256: engineSha256 } = await prepareEngine({ outDir: ENGINE_FOLDER });
const workerd = await createWorkerdRunner({ engineFolder: ENGINE_FOLDER, engineSha256 });
const node = createNodeRunner();

/** Creates a text of random vocabulary words with the given token count. */
function inputOfLength(tokens: number): NamedTensors {
  const random = seededRandom(SEED);
  const ids = Array.from({ length: tokens - 2 }, () => 2_000 + Math.floor(random() * 20_000));
  return encode([{ kind: "tokens", ids }]);
}

try {
  log(
    `vectors of ${queries.length} queries and ${index.length} texts, in FP32 by onnxruntime-node and in INT8 in workerd`,
  );
  const labelled = async (
    graph: Uint8Array,
    runner: typeof node,
  ): Promise<{ queries: LabeledVectors; index: LabeledVectors }> => {
    const session = await runner.open(graph);
    const of = async (texts: readonly LabeledText[]) => ({
      vectors: await computeVectors(
        (inputs) => session.run(inputs),
        toTensors(texts),
        tier.output,
        project.dimensions,
      ),
      labels: texts.map(({ label }) => label),
    });
    try {
      return { queries: await of(queries), index: await of(index) };
    } finally {
      await session.close();
    }
  };
  const fp32 = await labelled(graphs.fp32, node);
  const int8 = await labelled(graphs.int8, workerd);
  const original = await readOriginalVectors();

  log("latency in workerd");
  const sessions = [await workerd.open(graphs.int8), await workerd.open(graphs.fp32)];
  const latency = [];
  for (const tokens of LENGTHS) {
    const [quantised, floating] = await compareLatency(sessions, [inputOfLength(tokens)], ROUNDS);
    latency.push({
      case: `latency, ${tokens} tokens`,
      p50Ms: roundToFourDigits(quantised?.p50Ms ?? Number.NaN),
      p95Ms: roundToFourDigits(quantised?.p95Ms ?? Number.NaN),
      fp32P50Ms: roundToFourDigits(floating?.p50Ms ?? Number.NaN),
      fp32OverInt8: roundToFourDigits(floating?.ratio ?? Number.NaN),
    });
  }
  const sessionBytes = sessions[0]?.memoryBytes() ?? Number.NaN;
  for (const session of sessions) await session.close();

  log("the Worker as it is deployed");
  const deployed = await measureDeployed(source, project, {
    isolates: ISOLATES,
    texts: queries.slice(0, 128).map(({ text }) => text),
    log,
  });
  const { engine } = deployed.report;
  const heldBytes = ({ heapBytes, bufferBytes, wasmBytes }: typeof deployed.cold) =>
    heapBytes + bufferBytes + wasmBytes;

  const compared = {
    "INT8 against FP32": pairwiseCosines(int8.queries.vectors, fp32.queries.vectors),
    "deployed against INT8": pairwiseCosines(deployed.vectors, int8.queries.vectors),
    ...(original === undefined
      ? {}
      : {
          "INT8 against the package's encoder": pairwiseCosines(int8.queries.vectors, original),
          "FP32 against the package's encoder": pairwiseCosines(fp32.queries.vectors, original),
        }),
  };
  const accuracies = [project.dimensions, 256, 128].map((dimensions) => ({
    dimensions,
    fp32: measureRetrievalAccuracy(fp32.queries, fp32.index, dimensions),
    int8: measureRetrievalAccuracy(int8.queries, int8.index, dimensions),
  }));
  await writeBenchReport({
    name: "embeddings",
    seed: SEED,
    n: queries.length,
    packages: ["onnxruntime-web", "onnxruntime-node", "workerd"],
    isSaved: !isSmoke,
    rows: [
      ...Object.entries(compared).map(([name, { mean, worst, p01 }]) => ({
        case: `cosine, ${name}`,
        mean: Number(mean.toFixed(6)),
        p01: Number(p01.toFixed(6)),
        worst: Number(worst.toFixed(6)),
      })),
      ...accuracies.map(({ dimensions, ...rest }) => ({
        case: `nearest neighbor has the intent, ${dimensions} dimensions`,
        fp32: roundToFourDigits(rest.fp32),
        int8: roundToFourDigits(rest.int8),
        lostPoints: roundToFourDigits(100 * (rest.fp32 - rest.int8)),
      })),
      ...latency,
      ...Object.entries({ cold: deployed.cold, "after many requests": deployed.steady }).map(
        ([when, memory]) => ({
          case: `isolate, ${when}`,
          wasmBytes: memory.wasmBytes,
          heapBytes: memory.heapBytes,
          bufferBytes: memory.bufferBytes,
          heldBytes: heldBytes(memory),
        }),
      ),
      {
        case: `first request of ${ISOLATES} fresh isolates`,
        p50Ms: roundToFourDigits(quantile(deployed.firstMs, 0.5)),
        p95Ms: roundToFourDigits(quantile(deployed.firstMs, 0.95)),
      },
      {
        case: "second request",
        p50Ms: roundToFourDigits(quantile(deployed.secondMs, 0.5)),
        p95Ms: roundToFourDigits(quantile(deployed.secondMs, 0.95)),
      },
    ],
    figures: {
      int8Bytes: graphs.int8.byteLength,
      fp32Bytes: graphs.fp32.byteLength,
      sessionBytes,
      isolateBytes: heldBytes(deployed.steady),
      uploadBytes: deployed.uploadBytes,
      engineGzipBytes: engine.gzipBytes,
      startupCpuMs: roundToFourDigits(deployed.startupCpuMs),
      cosineMean: Number(compared["INT8 against FP32"].mean.toFixed(6)),
      cosineWorst: Number(compared["INT8 against FP32"].worst.toFixed(6)),
    },
    notes: [
      `Queries: CLINC150 val, in scope; index: the first ${BY_LABEL} texts of each intent of train. The engine is ${engine.kind}${engine.kind === "full" ? ` (${engine.reason})` : ` to ${engine.functionCount} functions`}.`,
      deployed.report.graphs
        .map(
          ({ tier: id, bundled, snapshot }) =>
            `Tier ${id}: ${snapshot === null ? "no snapshot" : `snapshot of ${snapshot.memoryBytes} bytes of memory, ${snapshot.bytes} as it is, ${snapshot.gzipBytes} gzip`}${bundled ? ", bundled" : ""}.`,
        )
        .join(" "),
    ],
  });
} finally {
  await workerd.close();
  await node.close();
}

/** Vectors of the queries, in order; undefined if the recipe has not made them. */
async function readOriginalVectors(): Promise<Float32Array[] | undefined> {
  const bytes = await readFile(options.original).catch(() => undefined);
  if (bytes === undefined) return undefined;
  const floats = new Float32Array(byteView(bytes).slice().buffer);
  const rows = lines.map((line, row) => ({
    line,
    vector: floats.subarray(row * project.dimensions, (row + 1) * project.dimensions),
  }));
  return rows
    .filter(({ line }) => line.label !== "oos")
    .slice(0, QUERIES)
    .map(({ vector }) => vector);
}
