// Benchmarks every available execution provider on `intent`'s region graph and on a MobileNet. Graphs are INT8, and
// FP32 and FP16 without 8-bit rounding. Run: node test/bench/providers.ts [provider…] (default: all of them).
//
// WebGPU without a GPU: see test/runtime/detect-vulkan.ts.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { executionProviderSchema } from "../../src/core/execution-provider.ts";
import type { NamedTensors } from "../../src/core/tensor.ts";
import { openWithProviderFallback } from "../../src/region/server/provider-fallback.ts";
import { createIsolatedRuntime } from "../../src/runtime/native/isolated-runtime.ts";
import { convertToFp16 } from "../../src/toolchain/fp16/convert-to-fp16.ts";
import { dequantize } from "../../src/toolchain/fp16/dequantize.ts";
import { parseModel, serializeModel } from "../../src/toolchain/onnx/model-file.ts";
import "../runtime/detect-vulkan.ts"; // sets the path of a Vulkan driver
import { createMobileNet } from "./lib/mobilenet.ts";
import { createRandom } from "./lib/random.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const SEED = 1;
/** Maximum number and duration of the timed runs. */
const [RUNS, MAX_MS] = [200, 10_000];
/** Time limit for opening a session and two runs. TensorRT builds its engine in that time. */
const TIME_LIMIT_MS = 300_000;

const random = createRandom(SEED);
function tokens(rows: number): NamedTensors {
  const shape = [rows, 16];
  const data = BigInt64Array.from({ length: rows * 16 }, () =>
    BigInt(Math.floor(random.next() * 5_000)),
  );
  return {
    input_ids: { datatype: "INT64", shape, data },
    attention_mask: { datatype: "INT64", shape, data: new BigInt64Array(rows * 16).fill(1n) },
  };
}
const images = (rows: number): NamedTensors => ({
  pixels: {
    datatype: "FP32",
    shape: [rows, 3, 224, 224],
    data: Float32Array.from({ length: rows * 3 * 224 * 224 }, () => 2 * random.next() - 1),
  },
});

const models = [
  {
    name: "intent",
    int8: new Uint8Array(
      readFileSync(join(import.meta.dirname, "../../models/intent/artifacts/region.onnx")),
    ),
    inputs: tokens,
  },
  {
    name: "mobilenet",
    int8: createMobileNet({ seed: SEED, width: 1, resolution: 224, classes: 1000 }),
    inputs: images,
  },
];

/** Creates the model without rounding to 8 bits. */
function createFloatGraphs(int8: Uint8Array): {
  readonly fp32: Uint8Array;
  readonly fp16: Uint8Array;
} {
  const model = parseModel(int8);
  dequantize(model);
  const fp32 = serializeModel(model);
  convertToFp16(model);
  return { fp32, fp16: serializeModel(model) };
}

const named = process.argv.slice(2);
const GPU_PROVIDERS = ["webgpu", "cuda", "tensorrt"];
/** Graph and provider of each configuration. 16-bit graphs run only in 16-bit configurations. */
const configurations = [
  { graph: "int8", provider: { name: "cpu" } },
  { graph: "fp32", provider: { name: "cpu" } },
  ...GPU_PROVIDERS.flatMap((name) => [
    { graph: "int8", provider: { name, precision: "fp32" } },
    { graph: "fp32", provider: { name, precision: "fp32" } },
    { graph: "fp16", provider: { name, precision: "fp16" } },
  ]),
]
  .filter(({ provider }) => named.length === 0 || named.includes(provider.name))
  .map(({ graph, provider }) => ({ graph, provider: executionProviderSchema.parse(provider) }));

/** Measures the median time of one run, in milliseconds. */
async function timeRuns(run: () => Promise<unknown>): Promise<number> {
  const timesMs: number[] = [];
  for (
    const startedAtMs = performance.now();
    timesMs.length < RUNS && performance.now() - startedAtMs < MAX_MS;
  ) {
    const runAtMs = performance.now();
    await run();
    timesMs.push(performance.now() - runAtMs);
  }
  return timesMs.toSorted((a, b) => a - b)[timesMs.length >> 1] ?? Number.NaN;
}

const runtime = createIsolatedRuntime("process");
const rows: ({ readonly case: string; readonly state: string } & Readonly<
  Record<string, number | string>
>)[] = [];
for (const { name: model, int8, inputs } of models) {
  const real = createFloatGraphs(int8);
  for (const { graph, provider } of configurations) {
    for (const batch of [1, 8]) {
      const input = inputs(batch);
      const graphs =
        graph === "int8" ? { fp32: int8 } : graph === "fp32" ? { fp32: real.fp32 } : real;
      const { session, providerReports: tried } = await openWithProviderFallback({
        runtime,
        graphByPrecision: graphs,
        providers: [provider],
        trialInputs: input,
        trialTimeoutMs: TIME_LIMIT_MS,
      });
      const {
        state = "not_tried",
        reason,
        openMs = Number.NaN,
        maxAbsDifference,
        nodes,
      } = tried[0] ?? {};
      const own = { case: `${model}, ${graph}, ${batch} rows, ${provider.name}`, state };
      if (state === "used") {
        const runP50Ms = await timeRuns(() => session.run(input));
        const counts =
          nodes === undefined
            ? {}
            : { ownNodes: nodes[provider.name] ?? 0, cpuNodes: nodes.cpu ?? 0 };
        const difference =
          maxAbsDifference === undefined
            ? {}
            : { maxAbsDifference: roundToFourDigits(maxAbsDifference) };
        rows.push({
          ...own,
          openMs: roundToFourDigits(openMs),
          runP50Ms: roundToFourDigits(runP50Ms),
          rowsPerSecond: roundToFourDigits((1_000 * batch) / runP50Ms),
          ...counts,
          ...difference,
        });
      } else rows.push({ ...own, reason: reason ?? "" });
      console.error(JSON.stringify(rows.at(-1)));
      await session.dispose();
    }
  }
}

await writeBenchReport({
  name: "providers",
  seed: SEED,
  n: RUNS,
  packages: ["onnxruntime-node"],
  rows,
  figures: Object.fromEntries(
    GPU_PROVIDERS.map((name) => [
      `${name}Used`,
      rows.filter((row) => row.state === "used" && row.case.endsWith(name)).length,
    ]),
  ),
});
process.exit();
