// The edge's HTTP application over the toy model, as the Worker builds it, with a store and a region that a test can
// break. No imports from Node: it runs in workerd.
import { regionErrors } from "../../src/region/errors.ts";
import { coreErrors } from "../../src/core/common-errors.ts";
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import type { CacheLayer } from "../../src/cache/cache-policy.ts";
import { ManualClock } from "../../src/core/clock.ts";
import type { NamedTensors } from "../../src/core/tensor.ts";
import { createOipHttpRegionClient } from "../../src/region/drivers/oip-http.ts";
import type { AccessPolicy } from "../../src/http/access/access-policy.ts";
import { createApp } from "../../src/http/app.ts";
import { createRegionPool } from "../../src/region/client/region-pool.ts";
import type { PooledRegion } from "../../src/region/client/region-state.ts";
import type { RegionClient, RegionRequest } from "../../src/region/region-client.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import type { SigningKey } from "../../src/registry/signing-keys.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import type { Deployment } from "../../src/runtime/wasm/deployment.ts";
import type { BundledSessions } from "../../src/runtime/wasm/restore-bundled-snapshots.ts";
import { createModelCatalog } from "../../src/serving/model-catalog.ts";
import { createDriftCheck } from "../../src/serving/drift-check.ts";
import { createEdgeSessions } from "../../src/serving/edge-sessions.ts";
import { createEmbedder } from "../../src/serving/embedder.ts";
import { createPredictor } from "../../src/serving/predictor.ts";
import { createLoadedModelCache } from "../../src/serving/loaded-model.ts";
import { createOpenInferenceModels } from "../../src/serving/open-inference-models.ts";
import { createImageDecoder } from "../../src/tasks/image/image-decoder.ts";
import type { MetricName } from "../../src/telemetry/edge-metric-definitions.ts";
import { startTelemetryUnderTest } from "./telemetry.ts";
import { publishToyModel } from "./toy-model.ts";

export interface EdgeUnderTest {
  readonly app: ReturnType<typeof createApp>;
  readonly store: ModelStore;
  /** The object store below the model store. */
  readonly objectStore: ObjectStore;
  readonly clock: ManualClock;
  /** Requests that reached the region. */
  readonly regionRequests: RegionRequest[];
  /** Requests forwarded to the region unchanged, and readiness requests. */
  readonly forwardedRequests: Request[];
  /** The region's answer to those. */
  createRegionResponse: () => Response;
  /** The labels of what was counted, once for each event. */
  readCountedLabels(name: MetricName): Readonly<Record<string, string>>[];
  /** Batches that the aggregator has taken. */
  countReportedBatches(): number;
  disconnectAggregator(): void;
  /** Log records. */
  readonly logRecords: Readonly<Record<string, unknown>>[];
  /** Behavior of the region from now on. */
  regionBehavior: "up" | "down" | "hangs";
  /** Whether the region has more to do than it can. */
  isRegionSaturated: boolean;
  /** Whether the store answers. */
  isStoreDown: boolean;
  /** Calls that met a store that was down. */
  failedStoreCallCount: number;
  predict(body: unknown, headers?: Record<string, string>): Promise<Response>;
}

export const ALIAS_TTL_MS = 10_000;
export const MAX_BODY_BYTES = 4_096;
export const MAX_TENSOR_BODY_BYTES = 100_000;
export const MAX_IMAGE_BODY_BYTES = 30_000;

export interface EdgeUnderTestOptions {
  /** Behind L1. */
  readonly cacheLayers?: readonly CacheLayer[];
  /** 0 by default. */
  readonly cdnAliasSeconds?: number;
  /** Restored at module scope; nothing by default. */
  readonly restoredSessions?: BundledSessions;
  readonly withoutRegion?: boolean;
  /** Nobody takes what is counted. */
  readonly withoutMetrics?: boolean;
  /** In place of the one that a test can break. */
  readonly regions?: readonly PooledRegion[];
  /** Token limit of one embeddings request. */
  readonly maxTokens?: number;
  /** Outputs of the region's graphs, instead of labels. */
  readonly computeRegionOutputs?: (request: RegionRequest) => NamedTensors;
  /** Signs everything in its store; only this key is trusted. */
  readonly signingKey?: SigningKey;
  /** The share of requests whose early exits are checked, one request at a time; 0 by default. */
  readonly driftShare?: number;
  /** Open to everybody by default. */
  readonly createAccess?: (clock: ManualClock) => AccessPolicy;
  /** Requests that compute at the same time. */
  readonly maxInFlight?: number;
}

export async function startEdgeUnderTest(
  graph: Uint8Array,
  deployment: Deployment,
  options: EdgeUnderTestOptions = {},
): Promise<EdgeUnderTest> {
  const {
    cacheLayers = [],
    cdnAliasSeconds = 0,
    restoredSessions: restored = { sessions: new Map(), failures: [] },
  } = options;
  const clock = new ManualClock(1_000_000);
  const { signingKey } = options;
  const objects = createMemoryObjectStore();
  const store = createModelStore(
    objects,
    signingKey && { signingKeys: [signingKey], trustedKeys: [signingKey.publicKey] },
  );
  await publishToyModel(store, graph);
  const regionRequests: RegionRequest[] = [];
  const forwarded: Request[] = [];
  const logged: Readonly<Record<string, unknown>>[] = [];

  const hanging = (signal: AbortSignal | null | undefined) =>
    new Promise<never>((_, reject) =>
      signal?.addEventListener("abort", () => reject(signal.reason)),
    );
  const overHttp = createOipHttpRegionClient({
    baseUrl: "http://region.test",
    async fetch(url, init) {
      forwarded.push(new Request(url, init));
      if (edge.regionBehavior === "down") throw new TypeError("connection refused");
      return edge.regionBehavior === "hangs"
        ? await hanging(init.signal)
        : edge.createRegionResponse();
    },
  });
  // The region's answer to everything is a sure "no", or "green"; how a real region gets there is its own tests' matter.
  const region: RegionClient = {
    ...overHttp,
    async infer(request, signal) {
      regionRequests.push(request);
      if (edge.regionBehavior === "down")
        throw regionErrors.regionUnavailable("connection refused");
      if (edge.regionBehavior === "hangs") await hanging(signal);
      if (options.computeRegionOutputs !== undefined) return options.computeRegionOutputs(request);
      const rows = request.inputs.length;
      const labels = request.model === "colours" ? 3 : 2;
      return {
        logits: {
          datatype: "FP32",
          shape: [rows, labels],
          data: Float32Array.from({ length: rows * labels }, (_, index) =>
            index % labels === 1 ? 9 : 0,
          ),
        },
      };
    },
    isReady: async () => edge.regionBehavior === "up",
    isSaturated: () => edge.isRegionSaturated,
  };

  const breakable = new Proxy(store, {
    get(target, method, receiver) {
      if (edge.isStoreDown) {
        return () => {
          edge.failedStoreCallCount++;
          return Promise.reject(coreErrors.storeUnavailable("connection refused"));
        };
      }
      return Reflect.get(target, method, receiver);
    },
  });
  const log = (record: Readonly<Record<string, unknown>>) => void logged.push(record);
  const telemetry = startTelemetryUnderTest(clock);
  const { metrics } = telemetry;
  const catalog = createModelCatalog({
    store: breakable,
    clock,
    aliasTtlMs: ALIAS_TTL_MS,
    storeTimeoutMs: 1000,
    onVersionRejected: (refused) => log({ event: "version_refused", ...refused }),
  });
  const sessions = createEdgeSessions({
    deployment,
    restored,
    store: breakable,
    storeTimeoutMs: 1000,
    metrics,
    log,
  });
  const imageDecoder = deployment.images && createImageDecoder(deployment.images);
  const regions = options.regions && createRegionPool(options.regions, { clock });
  const tiers = {
    store: breakable,
    sessions,
    imageDecoder,
    region: options.withoutRegion === true ? undefined : (regions ?? region),
    storeTimeoutMs: 1000,
  };
  const getLoadedModel = createLoadedModelCache(tiers, 2);
  const answering = {
    catalog,
    getLoadedModel,
    clock,
    cacheLayers: [
      { name: "l1", store: createLruCache({ maxBytes: 1_000_000, clock }), ttlSeconds: 60 },
      ...cacheLayers,
    ] as const,
    maxInputs: 4,
    metrics,
  };
  const drift = createDriftCheck({
    sampleRate: options.driftShare ?? 0,
    maxConcurrent: 1,
    clock,
    metrics,
  });
  const predictor = createPredictor({ ...answering, driftCheck: drift });
  const embedder = createEmbedder({ ...answering, maxTokens: options.maxTokens ?? 40 });
  const tensors = createOpenInferenceModels({
    catalog,
    getLoadedModel,
    tiers,
    clock,
    maxInputs: 4,
    metrics,
  });
  const access = options.createAccess && { access: options.createAccess(clock) };
  const app = createApp({
    ...access,
    telemetry: options.withoutMetrics === true ? undefined : telemetry,
    catalog,
    predictor,
    embedder,
    openInferenceModels: tensors,
    sessions,
    regionPool: regions,
    clock,
    log,
    cdnAliasSeconds,
    maxInFlight: options.maxInFlight ?? 256,
    maxBodyBytes: MAX_BODY_BYTES,
    maxImageBodyBytes: MAX_IMAGE_BODY_BYTES,
    maxTensorBodyBytes: MAX_TENSOR_BODY_BYTES,
  });

  const edge: EdgeUnderTest = {
    app,
    store,
    objectStore: objects,
    clock,
    regionRequests,
    forwardedRequests: forwarded,
    createRegionResponse: () => Response.json({ model_name: "from the region", outputs: [] }),
    readCountedLabels: telemetry.readCountedLabels,
    countReportedBatches: telemetry.countReportedBatches,
    disconnectAggregator: telemetry.disconnectAggregator,
    logRecords: logged,
    regionBehavior: "up",
    isRegionSaturated: false,
    isStoreDown: false,
    failedStoreCallCount: 0,
    async predict(body, headers = {}) {
      return await app.request("/v1/models/toy/predict", {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: typeof body === "string" ? body : JSON.stringify(body),
      });
    },
  };
  return edge;
}
