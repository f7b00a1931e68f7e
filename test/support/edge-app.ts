import type { CacheLayer } from "../../src/cache/cache-policy.ts";
// Edge application under test: the Worker's HTTP application over the toy model, with a controlled store and region. No
// imports from Node: it runs in workerd.
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import { ManualClock } from "../../src/core/clock.ts";
import type { NamedTensors } from "../../src/core/tensor.ts";
import type { AccessPolicy } from "../../src/http/access/access-policy.ts";
import { createApp } from "../../src/http/app.ts";
import { createRegionPool } from "../../src/region/client/region-pool.ts";
import type { PooledRegion } from "../../src/region/client/region-state.ts";
import type { RegionClient, RegionRequest } from "../../src/region/region-client.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import type { SigningKey } from "../../src/registry/signing-keys.ts";
import type { Deployment } from "../../src/runtime/wasm/deployment.ts";
import type { BundledSessions } from "../../src/runtime/wasm/restore-bundled-snapshots.ts";
import { createDriftCheck } from "../../src/serving/drift-check.ts";
import { createEdgeSessions } from "../../src/serving/edge-sessions.ts";
import { createEmbedder } from "../../src/serving/embedder.ts";
import { createLoadedModelCache } from "../../src/serving/loaded-model.ts";
import { createModelCatalog } from "../../src/serving/model-catalog.ts";
import { createOpenInferenceModels } from "../../src/serving/open-inference-models.ts";
import { createPredictor } from "../../src/serving/predictor.ts";
import { createImageDecoder } from "../../src/tasks/image/image-decoder.ts";
import type { MetricName } from "../../src/telemetry/edge-metric-definitions.ts";
import {
  type BackendControls,
  createControlledRegion,
  createControlledStore,
} from "./controlled-backends.ts";
import { startTelemetryUnderTest, type TelemetryUnderTest } from "./telemetry.ts";
import { publishToyModel } from "./toy-model.ts";

export interface EdgeUnderTest extends BackendControls {
  readonly app: ReturnType<typeof createApp>;
  readonly store: ModelStore;
  /** The object store below the model store. */
  readonly objectStore: ObjectStore;
  readonly clock: ManualClock;
  /** Requests that reached the region. */
  readonly regionRequests: RegionRequest[];
  /** Requests forwarded to the region unchanged, and readiness requests. */
  readonly forwardedRequests: Request[];
  /** Returns the labels of each counted event. */
  readCountedLabels(name: MetricName): Readonly<Record<string, string>>[];
  /** Returns the number of batches that the aggregator has accepted. */
  countReportedBatches(): number;
  disconnectAggregator(): void;
  readonly logRecords: Readonly<Record<string, unknown>>[];
  predict(body: unknown, headers?: Record<string, string>): Promise<Response>;
}

const STORE_TIMEOUT_MS = 1_000;
const MAX_INPUTS = 4;
export const ALIAS_TTL_MS = 10_000;
export const MAX_BODY_BYTES = 4_096;
export const MAX_TENSOR_BODY_BYTES = 100_000;
export const MAX_IMAGE_BODY_BYTES = 30_000;

export interface EdgeUnderTestOptions {
  /** Cache layers behind L1. */
  readonly cacheLayers?: readonly CacheLayer[];
  /** 0 by default. */
  readonly cdnAliasSeconds?: number;
  /** Sessions restored at module scope; none by default. */
  readonly restoredSessions?: BundledSessions;
  readonly withoutRegion?: boolean;
  /** Runs without telemetry. */
  readonly withoutMetrics?: boolean;
  /** Pooled regions that replace the controlled region. */
  readonly regions?: readonly PooledRegion[];
  /** Token limit of one embeddings request. */
  readonly maxTokens?: number;
  /** Outputs of the region's graphs, instead of confident logits. */
  readonly computeRegionOutputs?: (request: RegionRequest) => NamedTensors;
  /** Signs everything in the store; only this key is trusted. */
  readonly signingKey?: SigningKey;
  /** Share of requests whose early exits are checked, one request at a time; 0 by default. */
  readonly driftShare?: number;
  /** Access policy; anonymous access by default. */
  readonly createAccess?: (clock: ManualClock) => AccessPolicy;
  /** Requests that compute concurrently; 256 by default. */
  readonly maxInFlight?: number;
}

interface ServingDependencies {
  readonly deployment: Deployment;
  readonly options: EdgeUnderTestOptions;
  /** The controlled store. */
  readonly store: ModelStore;
  readonly region: RegionClient;
  readonly clock: ManualClock;
  readonly telemetry: TelemetryUnderTest;
  log(record: Readonly<Record<string, unknown>>): void;
}

export async function startEdgeUnderTest(
  graph: Uint8Array,
  deployment: Deployment,
  options: EdgeUnderTestOptions = {},
): Promise<EdgeUnderTest> {
  const { signingKey } = options;
  const clock = new ManualClock(1_000_000);
  const objectStore = createMemoryObjectStore();
  const store = createModelStore(
    objectStore,
    signingKey && { signingKeys: [signingKey], trustedKeys: [signingKey.publicKey] },
  );
  await publishToyModel(store, graph);

  const controls: BackendControls = {
    regionBehavior: "up",
    isRegionSaturated: false,
    isStoreDown: false,
    failedStoreCallCount: 0,
    createRegionResponse: () => Response.json({ model_name: "from the region", outputs: [] }),
  };
  const region = createControlledRegion(controls, options.computeRegionOutputs);
  const telemetry = startTelemetryUnderTest(clock);
  const logRecords: Readonly<Record<string, unknown>>[] = [];
  const app = createAppUnderTest({
    deployment,
    options,
    store: createControlledStore(store, controls),
    region: region.client,
    clock,
    telemetry,
    log: (record) => void logRecords.push(record),
  });
  // The controls stay the same object, because the backends read them.
  return Object.assign(controls, {
    app,
    store,
    objectStore,
    clock,
    regionRequests: region.regionRequests,
    forwardedRequests: region.forwardedRequests,
    readCountedLabels: telemetry.readCountedLabels,
    countReportedBatches: telemetry.countReportedBatches,
    disconnectAggregator: telemetry.disconnectAggregator,
    logRecords,
    async predict(body: unknown, headers: Record<string, string> = {}) {
      return await app.request("/v1/models/toy/predict", {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: typeof body === "string" ? body : JSON.stringify(body),
      });
    },
  });
}

function createAppUnderTest(dependencies: ServingDependencies): ReturnType<typeof createApp> {
  const { options, clock, telemetry, log } = dependencies;
  const regionPool = options.regions && createRegionPool(options.regions, { clock });
  return createApp({
    ...(options.createAccess && { access: options.createAccess(clock) }),
    ...createServing(dependencies, regionPool),
    telemetry: options.withoutMetrics === true ? undefined : telemetry,
    regionPool,
    clock,
    log,
    cdnAliasSeconds: options.cdnAliasSeconds ?? 0,
    maxInFlight: options.maxInFlight ?? 256,
    maxBodyBytes: MAX_BODY_BYTES,
    maxImageBodyBytes: MAX_IMAGE_BODY_BYTES,
    maxTensorBodyBytes: MAX_TENSOR_BODY_BYTES,
  });
}

/** Creates the serving layer: catalog, sessions, predictor, embedder and Open Inference models. */
function createServing(
  { deployment, options, store, region, clock, telemetry: { metrics }, log }: ServingDependencies,
  regionPool: RegionClient | undefined,
) {
  const catalog = createModelCatalog({
    store,
    clock,
    aliasTtlMs: ALIAS_TTL_MS,
    storeTimeoutMs: STORE_TIMEOUT_MS,
    onVersionRejected: (rejection) => log({ event: "version_refused", ...rejection }),
  });
  const sessions = createEdgeSessions({
    deployment,
    restored: options.restoredSessions ?? { sessions: new Map(), failures: [] },
    store,
    storeTimeoutMs: STORE_TIMEOUT_MS,
    metrics,
    log,
  });
  const tiers = {
    store,
    sessions,
    imageDecoder: deployment.images && createImageDecoder(deployment.images),
    region: options.withoutRegion === true ? undefined : (regionPool ?? region),
    storeTimeoutMs: STORE_TIMEOUT_MS,
  };
  const models = {
    catalog,
    getLoadedModel: createLoadedModelCache(tiers, 2),
    clock,
    maxInputs: MAX_INPUTS,
    metrics,
  };
  const l1 = createLruCache({ maxBytes: 1_000_000, clock });
  const cacheLayers = [
    { name: "l1", store: l1, ttlSeconds: 60 },
    ...(options.cacheLayers ?? []),
  ] as const;
  const sampleRate = options.driftShare ?? 0;
  const driftCheck = createDriftCheck({ sampleRate, maxConcurrent: 1, clock, metrics });
  return {
    catalog,
    sessions,
    predictor: createPredictor({ ...models, cacheLayers, driftCheck }),
    embedder: createEmbedder({ ...models, cacheLayers, maxTokens: options.maxTokens ?? 40 }),
    openInferenceModels: createOpenInferenceModels({ ...models, tiers }),
  };
}
