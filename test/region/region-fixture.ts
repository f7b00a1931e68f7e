// Region fixture: a model store with small real models, and a region server that serves it.
import { readFile } from "node:fs/promises";
import type { Clock } from "../../src/core/clock.ts";
import type { NamedTensors } from "../../src/core/tensor.ts";
import { passthroughTracer, type Tracer } from "../../src/core/tracing.ts";
import {
  createRegionApp,
  type RegionAppDependencies,
  type RequestFailureEvent,
} from "../../src/region/server/app.ts";
import { createExecutor } from "../../src/region/server/batching/create-executor.ts";
import { createLifecycle, type Lifecycle } from "../../src/region/server/lifecycle.ts";
import {
  createModelRepository,
  type ModelRepository,
  type ModelRepositoryOptions,
  type RepositoryEvent,
} from "../../src/region/server/model-repository.ts";
import {
  type OperatorConfig,
  EMPTY_OPERATOR_CONFIG,
} from "../../src/region/server/operator-config.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import type {
  TextClassificationManifest,
  TextClassificationTier,
} from "../../src/registry/manifest.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import {
  createNativeRuntime,
  type NativeRuntime,
} from "../../src/runtime/native/native-runtime.ts";
import { json, tinyTokenizer } from "../fixtures/tiny-tokenizer.ts";

export const readFixture = async (name: string) =>
  new Uint8Array(await readFile(new URL(`../fixtures/${name}`, import.meta.url)));

const encoder = new TextEncoder();
const tokenSpecs = ["input_ids", "attention_mask"].map((name) => ({
  name,
  datatype: "INT64" as const,
  shape: [-1, -1],
}));

export interface MoodModelOptions {
  readonly model?: string;
  readonly version?: number;
  /** Graphs of region tiers in test/fixtures, by tier id. */
  readonly tiers?: Readonly<Record<string, string>>;
  /** Edits each tier before the manifest is written. */
  readonly edit?: (tier: TextClassificationTier, index: number) => void;
}

/** Publishes a bag-of-tokens model: "good" scores [1, 0], "bad" [0, 1], "great" [2, -1], "greatly" [2.5, -0.75]. */
export async function publishMoodModel(
  store: ModelStore,
  options: MoodModelOptions = {},
): Promise<TextClassificationManifest> {
  const {
    model = "mood",
    version = 1,
    tiers = { heavy: "bag-of-tokens.onnx" },
    edit = () => {},
  } = options;
  const artifact = (await store.writeArtifact(json(tinyTokenizer))).ref;
  const labels = (await store.writeArtifact(encoder.encode('["good","bad"]'))).ref;
  const ids = Object.keys(tiers);
  const tierOf = async (id: string, index: number): Promise<TextClassificationTier> => ({
    id,
    place: "region",
    precision: "fp32",
    graph: (await store.writeArtifact(await readFixture(tiers[id] ?? ""))).ref,
    preprocessor: { kind: "wordpiece", artifact, maxTokens: 16 },
    inputs: tokenSpecs,
    outputs: [{ name: "logits", datatype: "FP32", shape: [-1, 2] }],
    calibration: { temperature: 1 },
    exit: index === ids.length - 1 ? null : { confidence: 0.9 },
    figures: {},
  });
  const manifest: TextClassificationManifest = {
    schemaVersion: 1,
    model,
    version,
    task: "text-classification",
    description: "",
    labels,
    input: { maxBytes: 64 },
    deadlineMs: 1_000,
    tiers: await Promise.all(ids.map(tierOf)),
    figures: {},
    provenance: {},
  };
  manifest.tiers.forEach(edit);
  await store.writeManifest(manifest);
  return manifest;
}

export interface RegionFixture {
  readonly objects: ObjectStore;
  readonly store: ModelStore;
  readonly repository: ModelRepository;
  readonly lifecycle: Lifecycle;
  readonly app: ReturnType<typeof createRegionApp>;
  readonly events: RepositoryEvent[];
  readonly failures: RequestFailureEvent[];
  /** Error code of each finished infer request, in order; undefined for a success. */
  readonly errorCodes: (string | undefined)[];
}

export interface RegionFixtureOptions
  extends
    Partial<
      Pick<
        RegionAppDependencies,
        | "maxBodyBytes"
        | "maxRows"
        | "executor"
        | "concurrencyLimiter"
        | "coalescer"
        | "authentication"
        | "statistics"
        | "metrics"
        | "onOutcome"
        | "onResponse"
      >
    >,
    Pick<ModelRepositoryOptions, "memoryBudgetBytes" | "memoryTimeoutMs" | "staleVersionIdleMs"> {
  readonly clock?: Clock;
  readonly objects?: ObjectStore;
  readonly runtime?: NativeRuntime;
  readonly operatorConfig?: Partial<OperatorConfig>;
}

export function createRegionFixture(options: RegionFixtureOptions = {}): RegionFixture {
  const {
    clock,
    objects = createMemoryObjectStore(),
    runtime = createNativeRuntime({ intraOpThreads: 1 }),
    operatorConfig,
    ...rest
  } = options;
  const timed = clock === undefined ? {} : { clock };
  const common = {
    operatorConfig: { ...EMPTY_OPERATOR_CONFIG, ...operatorConfig },
    ...timed,
    ...rest,
  };
  const events: RepositoryEvent[] = [];
  const failures: RequestFailureEvent[] = [];
  const errorCodes: (string | undefined)[] = [];
  const store = createModelStore(objects);
  const repository = createModelRepository({
    store,
    runtime,
    onEvent: (event) => events.push(event),
    ...common,
  });
  const lifecycle = createLifecycle(clock);
  lifecycle.start();
  const app = createRegionApp({
    repository,
    executor: createExecutor({ defaultBatching: { mode: "off" }, ...timed }),
    lifecycle,
    version: "0.0.0",
    onRequestFailed: (failure) => failures.push(failure),
    tracer: createErrorCodeTracer((code) => errorCodes.push(code)),
    ...common,
  });
  return { objects, store, repository, lifecycle, app, events, failures, errorCodes };
}

/** Records no spans. Responses of Open Inference Protocol carry no error codes, so tests read them here. */
function createErrorCodeTracer(onFinished: (code: string | undefined) => void): Tracer {
  return {
    ...passthroughTracer,
    startRequest: (header) => ({
      ...passthroughTracer.startRequest(header),
      finish(_waitUntil, end) {
        if (end === undefined) return;
        const code = end.attributes["error.type"];
        onFinished(code === undefined ? undefined : String(code));
      },
    }),
  };
}

/** Runtime that counts sessions and runs; tests observe loads and warm-ups with it. */
export function createCountingRuntime(onRun: (inputs: NamedTensors) => void = () => {}) {
  const counts = { sessions: 0, runs: 0, disposed: 0 };
  const native = createNativeRuntime({ intraOpThreads: 1 });
  const runtime: NativeRuntime = {
    name: "counting",
    async createSession(model, options) {
      const session = await native.createSession(model, options);
      counts.sessions++;
      return {
        ...session,
        run: (inputs) => (counts.runs++, onRun(inputs), session.run(inputs)),
        dispose: () => (counts.disposed++, session.dispose()),
      };
    },
  };
  return { counts, runtime };
}

/** Body of an infer request with texts as the task input. */
export const createTextBody = (texts: readonly string[], rest: object = {}) =>
  JSON.stringify({
    inputs: [{ name: "input", shape: [texts.length], datatype: "BYTES", data: texts }],
    ...rest,
  });

export const postRequest = (
  body: BodyInit,
  headers: Record<string, string> = { "content-type": "application/json" },
): RequestInit => ({ method: "POST", body, headers });
