// Cost and memory of reloading a model, and cost of a call. Compares onnxruntime-node in the server's own thread (the
// peer) with a thread or process per session. Run: node test/bench/reload.ts [reloads]
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { NamedTensors } from "../../src/core/tensor.ts";
import {
  createIsolatedRuntime,
  ISOLATIONS,
  type Isolation,
} from "../../src/runtime/native/isolated-runtime.ts";
import type { NativeRuntime, NativeSession } from "../../src/runtime/native/native-runtime.ts";
import type { NativeSessionOptions } from "../../src/runtime/native/session-options.ts";
import { createMobileNet } from "./lib/mobilenet.ts";
import { encodeModel, ints } from "./lib/onnx-writer.ts";
import { createRandom } from "./lib/random.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const SEED = 1;
/** The allocator and V8 have settled by then. */
const WARM_UP_RELOADS = 20;
const CALLS = 700;
const MIB = 2 ** 20;

const random = createRandom(SEED);
const floats = (shape: readonly number[]) =>
  ({
    datatype: "FP32",
    shape,
    data: Float32Array.from({ length: shape.reduce((a, b) => a * b) }, () => 2 * random.next() - 1),
  }) as const;
const tokens = (rows: number): NamedTensors => {
  const shape = [rows, 16];
  const data = BigInt64Array.from({ length: rows * 16 }, () =>
    BigInt(Math.floor(random.next() * 5_000)),
  );
  return {
    input_ids: { datatype: "INT64", shape, data },
    attention_mask: { datatype: "INT64", shape, data: new BigInt64Array(rows * 16).fill(1n) },
  };
};

interface ReloadCaseOptions {
  readonly model: Uint8Array;
  readonly input: NamedTensors;
  readonly options?: NativeSessionOptions;
}

const intent = (rows: number): ReloadCaseOptions => ({
  model: new Uint8Array(
    readFileSync(join(import.meta.dirname, "../../models/intent/artifacts/region.onnx")),
  ),
  input: tokens(rows),
});
/** All it does is to look at its input once. */
const maximum = (elements: number): ReloadCaseOptions => ({
  model: encodeModel({
    name: "maximum",
    opset: 13,
    inputs: [{ name: "x", datatype: "FP32", shape: ["n"] }],
    outputs: [{ name: "y", datatype: "FP32", shape: [1] }],
    nodes: [{ op: "ReduceMax", inputs: ["x"], outputs: ["y"], attributes: { axes: ints([0]) } }],
    initializers: {},
  }),
  input: { x: floats([elements]) },
});
const dense = (size: number): ReloadCaseOptions => ({
  model: encodeModel({
    name: "dense",
    opset: 13,
    inputs: [{ name: "x", datatype: "FP32", shape: ["n", size] }],
    outputs: [{ name: "y", datatype: "FP32", shape: ["n", size] }],
    nodes: [{ op: "MatMul", inputs: ["x", "w"], outputs: ["y"] }],
    initializers: { w: floats([size, size]) },
  }),
  input: { x: floats([1, size]) },
  options: { provider: { name: "webgpu", precision: "fp32" } },
});

const reloadCases = {
  intent: () => intent(1),
  mobilenet: () => ({
    model: createMobileNet({ seed: SEED, width: 1, resolution: 224, classes: 1000 }),
    input: { pixels: floats([1, 3, 224, 224]) },
  }),
  "webgpu, 4 MB of weights": () => dense(1_000),
} as const satisfies Readonly<Record<string, () => ReloadCaseOptions>>;
type ReloadCase = keyof typeof reloadCases;

const callCases = {
  "intent [1, 16]": () => intent(1),
  "intent [32, 16]": () => intent(32),
  "a tensor of 150 kB": () => maximum(37_632),
  "a tensor of 600 kB": () => maximum(150_528),
  "a tensor of 4.8 MB": () => maximum(8 * 150_528),
} as const satisfies Readonly<Record<string, () => ReloadCaseOptions>>;

const runtimeWith = (isolation: Isolation): NativeRuntime =>
  createIsolatedRuntime(isolation, { session: { intraOpThreads: 1 } });
const quantile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN;

function readRssMiB(): number {
  globalThis.gc?.();
  return process.memoryUsage.rss() / MIB;
}

/** Kibibytes a reload, by least squares. */
function fitSlopeKiB(samples: readonly (readonly [reload: number, mib: number])[]): number {
  const mean = (index: 0 | 1) =>
    samples.reduce((sum, sample) => sum + sample[index], 0) / samples.length;
  const [x, y] = [mean(0), mean(1)];
  const covariance = samples.reduce((sum, sample) => sum + (sample[0] - x) * (sample[1] - y), 0);
  return (1024 * covariance) / samples.reduce((sum, sample) => sum + (sample[0] - x) ** 2, 0);
}

/** Runs in a process of its own, whose memory holds only this. */
async function measureReloads(name: ReloadCase, isolation: Isolation, reloads: number) {
  const { model, input, options }: ReloadCaseOptions = reloadCases[name]();
  const runtime = runtimeWith(isolation);
  const samples: [number, number][] = [];
  const timesMs: number[] = [];
  let sessionBytes = 0;
  for (let reload = 1; reload <= reloads; reload++) {
    const startedAtMs = performance.now();
    const session = await runtime.createSession(model, options);
    await session.run(input);
    sessionBytes = session.memoryBytes;
    await session.dispose();
    timesMs.push(performance.now() - startedAtMs);
    if (reload >= WARM_UP_RELOADS && reload % 5 === 0) samples.push([reload, readRssMiB()]);
  }
  const [first, last] = [samples[0]?.[1] ?? Number.NaN, samples.at(-1)?.[1] ?? Number.NaN];
  return {
    reloads,
    serverMiBSettled: first,
    serverMiBAtEnd: last,
    growthKiBPerReload: fitSlopeKiB(samples),
    sessionMiB: sessionBytes / MIB,
    reloadP50Ms: quantile(timesMs, 0.5),
  };
}
type ReloadFigures = Awaited<ReturnType<typeof measureReloads>>;

const [first, ...rest] = process.argv.slice(2);
if (first === "--case") {
  const [name, isolation, reloads] = rest as [ReloadCase, Isolation, string];
  console.log(JSON.stringify(await measureReloads(name, isolation, Number(reloads))));
  process.exit();
}

async function measureCalls(
  session: NativeSession,
  input: NamedTensors,
): Promise<readonly number[]> {
  const timesMs: number[] = [];
  for (let call = 0; call < CALLS / 7; call++) {
    const startedAtMs = performance.now();
    await session.run(input);
    timesMs.push(performance.now() - startedAtMs);
  }
  return timesMs;
}

const reloads = Number(first ?? 200);
const { hasVulkan } = await import("../runtime/detect-vulkan.ts");
const rows = [];
const reloadFigures = new Map<string, ReloadFigures>();
for (const name of Object.keys(reloadCases) as ReloadCase[]) {
  if (name.startsWith("webgpu") && !hasVulkan) continue;
  for (const isolation of name.startsWith("webgpu") ? (["none", "process"] as const) : ISOLATIONS) {
    const count = name.startsWith("webgpu") ? Math.min(reloads, 60) : reloads; // slow, where the GPU is the CPU
    const output = execFileSync(
      process.execPath,
      ["--expose-gc", import.meta.filename, "--case", name, isolation, String(count)],
      { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] },
    );
    const figures: ReloadFigures = JSON.parse(output);
    reloadFigures.set(`${name} ${isolation}`, figures);
    rows.push({
      case: `reload ${name}, isolation ${isolation}`,
      ...Object.fromEntries(
        Object.entries(figures).map(([key, value]) => [key, roundToFourDigits(value)]),
      ),
    });
  }
}

const callP50Ms = new Map<string, number>();
for (const [name, makeCase] of Object.entries(callCases)) {
  const { model, input } = makeCase();
  const sessions = await Promise.all(
    ISOLATIONS.map(
      async (isolation) => [isolation, await runtimeWith(isolation).createSession(model)] as const,
    ),
  );
  const timesMs = new Map<Isolation, number[]>(ISOLATIONS.map((isolation) => [isolation, []]));
  for (let round = -1; round < 7; round++) {
    // Sessions alternate, so that the machine's state affects all alike; the first round only warms up.
    for (const [isolation, session] of sessions) {
      const times = await measureCalls(session, input);
      if (round >= 0) timesMs.get(isolation)?.push(...times);
    }
  }
  for (const [isolation, session] of sessions) {
    const times = timesMs.get(isolation) ?? [];
    callP50Ms.set(`${name} ${isolation}`, quantile(times, 0.5));
    rows.push({
      case: `call ${name}, isolation ${isolation}`,
      callP50Ms: roundToFourDigits(quantile(times, 0.5)),
      callP99Ms: roundToFourDigits(quantile(times, 0.99)),
    });
    await session.dispose();
  }
}

const growth = (key: string) => reloadFigures.get(key)?.growthKiBPerReload ?? Number.NaN;
const added = (name: keyof typeof callCases, isolation: Isolation) =>
  roundToFourDigits(
    (callP50Ms.get(`${name} ${isolation}`) ?? Number.NaN) -
      (callP50Ms.get(`${name} none`) ?? Number.NaN),
  );
await writeBenchReport({
  name: "reload",
  seed: SEED,
  n: reloads,
  packages: ["onnxruntime-node"],
  rows,
  figures: {
    processGrowthKiBPerReload: roundToFourDigits(
      Math.max(growth("intent process"), growth("mobilenet process")),
    ),
    peerGrowthKiBPerReload: roundToFourDigits(
      Math.max(growth("intent none"), growth("mobilenet none")),
    ),
    ...(hasVulkan && {
      webGpuProcessGrowthKiBPerReload: roundToFourDigits(growth("webgpu, 4 MB of weights process")),
      webGpuPeerGrowthKiBPerReload: roundToFourDigits(growth("webgpu, 4 MB of weights none")),
    }),
    processAddsAtIntentMs: added("intent [1, 16]", "process"),
    processAddsAt600kBMs: added("a tensor of 600 kB", "process"),
    threadAddsAt600kBMs: added("a tensor of 600 kB", "thread"),
  },
});
process.exit();
