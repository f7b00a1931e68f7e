import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { coreErrors } from "../../src/core/common-errors.ts";
import {
  executionProviderSchema,
  type ExecutionProvider,
} from "../../src/core/execution-provider.ts";
import type { NamedTensors } from "../../src/core/tensor.ts";
import {
  openWithProviderFallback,
  type ProviderFallbackOptions,
  type ProviderEvent,
} from "../../src/region/server/provider-fallback.ts";
// Execution provider fallback: trials against the CPU, with fakes for every fault of a provider and with real providers.
// The table of faults and the tests with real providers make the file long.
import { nativeErrors } from "../../src/runtime/native/errors.ts";
import { createIsolatedRuntime } from "../../src/runtime/native/isolated-runtime.ts";
import type { NativeRuntime, NativeSession } from "../../src/runtime/native/native-runtime.ts";
import type { NativeSessionOptions } from "../../src/runtime/native/session-options.ts";
import { createMobileNet } from "../bench/lib/mobilenet.ts";
import { createRandom } from "../bench/lib/random.ts";
import { hasVulkan } from "../runtime/detect-vulkan.ts";

const parseProvider = (name: string, options: object = {}): ExecutionProvider =>
  executionProviderSchema.parse({ name, ...options });
const logits = (...values: number[]): NamedTensors => ({
  logits: { datatype: "FP32", shape: [1, values.length], data: Float32Array.from(values) },
});
const never = new Promise<never>(() => {});

/** Outputs of each provider; `cpu` is the reference. */
type ProviderBehavior = NamedTensors | Promise<never> | ((model: Uint8Array) => NamedTensors);
type ProviderBehaviors = Readonly<Partial<Record<ExecutionProvider["name"], ProviderBehavior>>>;

function createFakeRuntime(behaviors: ProviderBehaviors) {
  const opened: {
    readonly model: Uint8Array;
    readonly options: NativeSessionOptions | undefined;
    disposed: boolean;
  }[] = [];
  const runtime: NativeRuntime = {
    name: "double",
    async createSession(model, options, end) {
      const name = options?.provider?.name ?? "cpu";
      const given = behaviors[name];
      const behavior = typeof given === "function" ? given(model) : given;
      const own = { model, options, disposed: false };
      opened.push(own);
      const session: NativeSession = {
        inputs: [],
        outputs: [],
        memoryBytes: 0,
        nodes: name === "tensorrt" ? { cpu: 3 } : { [name]: 2, cpu: 1 },
        run: async () => {
          if (behavior === never)
            await new Promise((_resolve, reject) =>
              end?.addEventListener("abort", () => reject(nativeErrors.sessionLost("by SIGKILL"))),
            );
          return behavior as NamedTensors;
        },
        dispose: async () => void (own.disposed = true),
      };
      return session;
    },
  };
  return { runtime, opened };
}

async function openWithFakes(
  behaviors: ProviderBehaviors,
  providers: ExecutionProvider[],
  more: Partial<ProviderFallbackOptions> = {},
) {
  const events: ProviderEvent[] = [];
  const { runtime, opened } = createFakeRuntime({ cpu: logits(1, 2, 3), ...behaviors });
  const options = {
    runtime,
    graphByPrecision: { fp32: Uint8Array.of(32) },
    providers,
    trialInputs: {},
    onEvent: (event: ProviderEvent) => void events.push(event),
    ...more,
  };
  return { ...(await openWithProviderFallback(options)), opened, events };
}

const faults: [title: string, behavior: ProviderBehavior, reason: RegExp][] = [
  ["returns different numbers", logits(1, 2, 3.5), /\blogits\b.* 3\.5 .*\b3\b.*\b2\b/],
  ["returns a different argmax", logits(1, 3.001, 3), /\blogits\b.* 3\.00\d* .*\b2\b.*\b1\b/],
  ["returns NaN", logits(1, Number.NaN, 3), /\blogits\b.*\b1\b/],
  ["returns another shape", logits(1, 2), /\[1, 2\].*\[1, 3\]/],
  ["omits an output", {}, /\blogits\b/],
  [
    "returns another datatype",
    { logits: { datatype: "INT32", shape: [1, 3], data: Int32Array.of(1, 2, 3) } },
    /\blogits\b/,
  ],
  [
    "ends its worker process",
    () => {
      throw nativeErrors.sessionLost("by SIGSEGV");
    },
    /\bcuda\b.*SIGSEGV/,
  ],
  [
    "does not support FP16",
    () => {
      throw coreErrors.sessionFailed("Transpose requires f16 but the device does not support it");
    },
    /precision to "fp32"/,
  ],
  [
    "cannot be loaded",
    () => {
      throw coreErrors.sessionFailed("Failed to load shared library");
    },
    /Failed to load shared library.*--onnxruntime-node-install=cuda12/,
  ],
];

describe("the list of providers", () => {
  it("is tried until the first provider that agrees with the CPU, and the CPU session is disposed of", async () => {
    const {
      providerReports: report,
      opened,
      events,
      openInstance,
    } = await openWithFakes(
      { cuda: logits(1.01, 2, 2.99), webgpu: logits(1, 2, 3) },
      [parseProvider("cuda", { deviceId: 1 }), parseProvider("webgpu")],
      { sessionOptions: { label: "m@1", intraOpThreads: 2 } },
    );
    expect(report).toMatchObject([
      {
        name: "cuda",
        precision: "fp32",
        state: "used",
        maxAbsDifference: expect.closeTo(0.01, 5),
        nodes: { cuda: 2, cpu: 1 },
        openMs: expect.any(Number),
        runMs: expect.any(Number),
      },
      { name: "webgpu", state: "not_tried" },
      { name: "cpu", state: "not_tried" },
    ]);
    expect(events).toEqual([{ event: "provider_used", label: "m@1", ...report[0] }]);
    expect(
      opened.map(({ options, disposed }) => ({
        name: options?.provider?.name,
        intraOpThreads: options?.intraOpThreads,
        disposed,
      })),
    ).toEqual([
      { name: "cpu", intraOpThreads: 2, disposed: true },
      { name: "cuda", intraOpThreads: 2, disposed: false },
    ]);
    await openInstance();
    expect(opened[2]?.options?.provider).toEqual({ name: "cuda", deviceId: 1, precision: "fp16" });
  });
});

describe("a provider that cannot be used", () => {
  it.each(faults)("is skipped with the reason if it %s", async (_title, behavior, reason) => {
    const {
      providerReports: report,
      events,
      opened,
    } = await openWithFakes({ cuda: behavior }, [parseProvider("cuda")]);
    expect(report).toMatchObject([
      { name: "cuda", state: "skipped", reason: expect.stringMatching(reason) },
      { name: "cpu", state: "used" },
    ]);
    expect(events).toMatchObject([
      { event: "provider_skipped", name: "cuda" },
      { event: "provider_used", name: "cpu" },
    ]);
    expect(
      opened.filter(({ disposed }) => !disposed).map(({ options }) => options?.provider?.name),
    ).toEqual(["cpu"]);
  });

  it("is skipped after the trial timeout if it hangs", async () => {
    const clock = new ManualClock();
    const opening = openWithFakes({ cuda: never }, [parseProvider("cuda")], {
      clock,
      trialTimeoutMs: 5_000,
    });
    await new Promise((resolve) => setImmediate(resolve)); // The trial run hangs now.
    clock.advance(5_000);
    expect((await opening).providerReports).toMatchObject([
      { name: "cuda", state: "skipped", reason: expect.stringContaining("5000 ms") },
      { name: "cpu", state: "used" },
    ]);
  });

  it("is skipped if it runs none of the nodes, although its outputs agree", async () => {
    const { providerReports: report } = await openWithFakes(
      { tensorrt: logits(1, 2, 3), cuda: logits(1, 2, 3) },
      [parseProvider("tensorrt"), parseProvider("cuda")],
    );
    expect(report).toMatchObject([
      {
        name: "tensorrt",
        state: "skipped",
        reason: expect.stringMatching(/./),
      },
      { name: "cuda", state: "used" },
      { name: "cpu", state: "not_tried" },
    ]);
  });
});

describe("the CPU provider", () => {
  it("is used with its options if it is listed first, and the others are not tried", async () => {
    const { providerReports: report, opened } = await openWithFakes({}, [
      parseProvider("cpu", { arena: false }),
      parseProvider("cuda"),
    ]);
    expect(report).toMatchObject([
      { name: "cpu", state: "used" },
      { name: "cuda", state: "not_tried" },
    ]);
    expect(opened.map(({ options }) => options?.provider)).toEqual([{ name: "cpu", arena: false }]);
  });
});

describe("a provider with an FP16 graph", () => {
  it("is compared with the CPU on that graph, and falls back to FP32 or the CPU", async () => {
    const graphs = { fp32: Uint8Array.of(32), fp16: Uint8Array.of(16) };
    const byGraph = (model: Uint8Array) =>
      model === graphs.fp16 ? logits(5, 2, 3) : logits(1, 2, 3);
    const half = await openWithFakes({ cpu: byGraph, cuda: byGraph }, [parseProvider("cuda")], {
      graphByPrecision: graphs,
    });
    expect(half.providerReports).toMatchObject([
      { name: "cuda", precision: "fp16", state: "used", maxAbsDifference: 0 },
      { name: "cpu", precision: "fp32", state: "not_tried" },
    ]);
    await half.openInstance();
    expect(
      half.opened.map(({ model, options, disposed }) => ({
        model,
        name: options?.provider?.name,
        disposed,
      })),
    ).toEqual([
      { model: graphs.fp16, name: "cpu", disposed: true },
      { model: graphs.fp16, name: "cuda", disposed: false },
      { model: graphs.fp16, name: "cuda", disposed: false },
    ]);

    const both = await openWithFakes(
      { cpu: byGraph, cuda: logits(1, 2, 3) },
      [parseProvider("cuda"), parseProvider("cuda", { precision: "fp32" })],
      { graphByPrecision: graphs },
    );
    expect(both.providerReports).toMatchObject([
      { name: "cuda", precision: "fp16", state: "skipped" },
      { name: "cuda", precision: "fp32", state: "used" },
      { name: "cpu" },
    ]);

    const none = await openWithFakes(
      { cpu: byGraph, cuda: logits(1, 2, 9) },
      [parseProvider("cuda")],
      {
        graphByPrecision: graphs,
      },
    );
    expect(none.providerReports).toMatchObject([
      { name: "cuda", precision: "fp16", state: "skipped" },
      { name: "cpu", precision: "fp32", state: "used" },
    ]);
    expect(none.opened.filter(({ disposed }) => !disposed).map(({ model }) => model)).toEqual([
      graphs.fp32,
    ]);
  });
});

describe("the reference session", () => {
  it("makes the load fail if the CPU cannot open the graph", async () => {
    const cpu = () => {
      throw coreErrors.sessionFailed("not a model");
    };
    await expect(
      openWithFakes({ cpu, cuda: logits(1) }, [parseProvider("cuda")]),
    ).rejects.toMatchObject({
      code: "session_failed",
    });
  });
});

it.each([
  ["webgpu", { deviceId: 1 }, /VK_DRIVER_FILES/],
  ["cuda", { memoryLimitBytes: 2 ** 30 }, /onnxruntime-node.*MIG/],
  ["tensorrt", { engineCacheDirectory: "/cache" }, /onnxruntime-node.*Triton/],
  ["tensorrt", { timingCacheDirectory: "/cache" }, /Triton/],
])("%s rejects %o, which has no effect", (name, options, message) => {
  expect(executionProviderSchema.safeParse({ name, ...options }).error?.issues).toMatchObject([
    { path: Object.keys(options), message: expect.stringMatching(message) },
  ]);
});

const readIntentGraph = async () =>
  new Uint8Array(
    await readFile(new URL("../../models/intent/artifacts/region.onnx", import.meta.url)),
  );
const tokens: NamedTensors = (() => {
  const random = createRandom(5);
  const data = BigInt64Array.from({ length: 16 }, () => BigInt(Math.floor(random.next() * 5_000)));
  return {
    input_ids: { datatype: "INT64", shape: [1, 16], data },
    attention_mask: { datatype: "INT64", shape: [1, 16], data: new BigInt64Array(16).fill(1n) },
  };
})();

const libraries = join(
  dirname(createRequire(import.meta.url).resolve("onnxruntime-node")),
  "../bin/napi-v6/linux/x64",
);
const hasCuda = existsSync(join(libraries, "libonnxruntime_providers_cuda.so"));

it.skipIf(hasCuda)(
  "without the CUDA library the CPU serves, and the report names the remedy (needs a host without it)",
  async () => {
    const providers = [parseProvider("tensorrt"), parseProvider("cuda")];
    const { session, providerReports: report } = await openWithProviderFallback({
      runtime: createIsolatedRuntime("process"),
      graphByPrecision: { fp32: await readIntentGraph() },
      providers,
      trialInputs: tokens,
    });
    expect(report).toMatchObject([
      {
        name: "tensorrt",
        state: "skipped",
        reason: expect.stringMatching(/Failed to load shared library.*TensorRT 10.*install\.js/),
      },
      {
        name: "cuda",
        state: "skipped",
        reason: expect.stringMatching(/Failed to load shared library.*install\.js/),
      },
      { name: "cpu", state: "used" },
    ]);
    expect((await session.run(tokens))["logits"]?.shape[0]).toBe(1);
    await session.dispose();
  },
);

it.skipIf(!hasCuda)(
  "CUDA agrees with the CPU on intent and a MobileNet (needs CUDA and the provider's library)",
  { timeout: 300_000 },
  async () => {
    for (const [graph, input] of [
      [await readIntentGraph(), tokens],
      createMobileNetSample(),
    ] as const) {
      const { session, providerReports: report } = await openWithProviderFallback({
        runtime: createIsolatedRuntime("process"),
        graphByPrecision: { fp32: graph },
        providers: [parseProvider("cuda")],
        trialInputs: input,
      });
      console.log(report);
      await session.dispose();
      expect(report[0]).toMatchObject({ name: "cuda", state: "used" });
    }
  },
);

function createMobileNetSample(): readonly [graph: Uint8Array, input: NamedTensors] {
  const random = createRandom(3);
  const pixels = {
    datatype: "FP32",
    shape: [1, 3, 96, 96],
    data: Float32Array.from({ length: 3 * 96 * 96 }, () => 2 * random.next() - 1),
  } as const;
  return [createMobileNet({ seed: 1, width: 0.25, resolution: 96, classes: 10 }), { pixels }];
}

describe.skipIf(!hasVulkan)(
  "WebGPU (needs a Vulkan loader and driver)",
  { timeout: 60_000 },
  () => {
    it.each([undefined, "NHWC"] as const)(
      "agrees with the CPU on a MobileNet, layout %s",
      async (preferredLayout) => {
        const [graph, input] = createMobileNetSample();
        const providers = [parseProvider("webgpu", { preferredLayout })];
        const { session, providerReports: report } = await openWithProviderFallback({
          runtime: createIsolatedRuntime("process"),
          graphByPrecision: { fp32: graph },
          providers,
          trialInputs: input,
        });
        await session.dispose();
        expect(report).toMatchObject([
          {
            name: "webgpu",
            state: "used",
            nodes: { webgpu: expect.any(Number), cpu: expect.any(Number) },
          },
          { name: "cpu", state: "not_tried" },
        ]);
      },
    );

    it("agrees with the CPU on intent, and runs most of its nodes", async () => {
      const { session, providerReports: report } = await openWithProviderFallback({
        runtime: createIsolatedRuntime("process"),
        graphByPrecision: { fp32: await readIntentGraph() },
        providers: [parseProvider("webgpu")],
        trialInputs: tokens,
      });
      await session.dispose();
      const { state, nodes } = report[0] ?? {};
      expect(state).toBe("used");
      expect(nodes?.webgpu).toBeGreaterThan(3 * (nodes?.cpu ?? Number.POSITIVE_INFINITY));
    });
  },
);
