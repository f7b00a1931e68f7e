// Worker: builds the app from a deployment and the Worker's bindings, and passes requests to it.

import { type Clock, systemClock } from "../../src/core/clock.ts";
import { reasonOf } from "../../src/core/errors.ts";
import type { Tracer } from "../../src/core/tracing.ts";
import { createConfiguredAccessPolicy } from "../../src/http/access/drivers/configured-access-policy.ts";
import { type AppDependencies, createApp } from "../../src/http/app.ts";
import { type EdgeConfig, parseEdgeConfig } from "../../src/http/config.ts";
import type { RegionPool } from "../../src/region/client/region-pool.ts";
import { createOipHttpRegionClient } from "../../src/region/drivers/oip-http.ts";
import { createSignedFetch } from "../../src/region/signed-fetch.ts";
import { withBundledArtifacts } from "../../src/registry/bundled-artifacts.ts";
import { createS3FetchObjectStore } from "../../src/registry/drivers/s3-fetch.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { toS3Options } from "../../src/registry/s3-config.ts";
import type { Deployment } from "../../src/runtime/wasm/deployment.ts";
import type { BundledSessions } from "../../src/runtime/wasm/restore-bundled-snapshots.ts";
import { createConfiguredRegions } from "../../src/serving/configured-regions.ts";
import { createDriftCheck } from "../../src/serving/drift-check.ts";
import { createEdgeSessions } from "../../src/serving/edge-sessions.ts";
import { createEmbedder } from "../../src/serving/embedder.ts";
import { createLoadedModelCache } from "../../src/serving/loaded-model.ts";
import { createModelCatalog, type ModelCatalog } from "../../src/serving/model-catalog.ts";
import { createOpenInferenceModels } from "../../src/serving/open-inference-models.ts";
import { createPredictor } from "../../src/serving/predictor.ts";
import { createImageDecoder } from "../../src/tasks/image/image-decoder.ts";
import { type EdgeMetrics, NOOP_METRICS } from "../../src/telemetry/metrics-recorder.ts";
import { redactSecrets } from "../../src/telemetry/redacted-log.ts";
import { createConfiguredTracer } from "../../src/telemetry/trace-config.ts";
import { createCacheLayers } from "./cache-layers.ts";
import { createConfiguredWorker, type Worker } from "./configured-worker.ts";
import { createEdgeTelemetry } from "./edge-telemetry.ts";

type Log = (record: Readonly<Record<string, unknown>>) => void;

const logToConsole: Log = (record) =>
  console[record["level"] === "info" ? "debug" : "error"](JSON.stringify(record));

interface Environment {
  readonly config: EdgeConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: EdgeMetrics;
}

/** @throws invalid_configuration */
function createEdgeApp(
  env: object,
  deployment: Deployment,
  restored: BundledSessions,
): ReturnType<typeof createApp> {
  const config = parseEdgeConfig(env);
  const clock = systemClock;
  const log = redactSecrets(logToConsole, config);
  const telemetry = createEdgeTelemetry(config, { clock, log });
  const environment = { config, clock, log, metrics: telemetry?.metrics ?? NOOP_METRICS };
  return createApp({
    ...createServing(environment, deployment, restored),
    telemetry,
    defaultEmbeddingModel: config.EDGETIER_EMBEDDING_MODEL,
    access: createConfiguredAccessPolicy(config, { clock, log }),
    clock,
    log,
    tracer: createTracer(environment),
    isAccessLogEnabled: config.EDGETIER_ACCESS_LOG === "on",
    maxInFlight: config.EDGETIER_MAX_IN_FLIGHT,
    cdnAliasSeconds: config.EDGETIER_CDN_ALIAS_SECONDS,
    maxBodyBytes: config.EDGETIER_MAX_BODY_BYTES,
    maxImageBodyBytes: config.EDGETIER_MAX_IMAGE_BODY_BYTES,
    maxTensorBodyBytes: config.EDGETIER_MAX_TENSOR_BODY_BYTES,
  });
}

/** Creates the dependencies of the app that serve models. */
function createServing(
  environment: Environment,
  deployment: Deployment,
  restored: BundledSessions,
): Pick<
  AppDependencies,
  "catalog" | "predictor" | "embedder" | "openInferenceModels" | "sessions" | "regionPool"
> {
  const { config, clock, log, metrics } = environment;
  const storeTimeoutMs = config.EDGETIER_S3_TIMEOUT_MS;
  const maxInputs = config.EDGETIER_MAX_INPUTS;
  const store = createStore(config, deployment);
  const catalog = createCatalog(environment, store);
  const region = createRegions(environment);
  const sessions = createEdgeSessions({
    deployment,
    restored,
    store,
    storeTimeoutMs,
    metrics,
    log,
  });
  const imageDecoder = deployment.images && createImageDecoder(deployment.images);
  const tiers = { store, sessions, imageDecoder, storeTimeoutMs, region };
  const getLoadedModel = createLoadedModelCache(tiers, config.EDGETIER_MAX_LOADED_VERSIONS);
  const cacheLayers = createCacheLayers(config, clock, log);
  const shared = { catalog, getLoadedModel, clock, maxInputs, metrics };
  return {
    catalog,
    sessions,
    regionPool: region,
    openInferenceModels: createOpenInferenceModels({ ...shared, tiers }),
    predictor: createPredictor({
      ...shared,
      cacheLayers,
      driftCheck: createDriftCheck({
        sampleRate: config.EDGETIER_DRIFT_SHARE,
        maxConcurrent: config.EDGETIER_DRIFT_MAX_CHECKS,
        clock,
        metrics,
      }),
    }),
    embedder: createEmbedder({ ...shared, cacheLayers, maxTokens: config.EDGETIER_MAX_TOKENS }),
  };
}

function createStore(config: EdgeConfig, deployment: Deployment): ModelStore {
  const published = createModelStore(createS3FetchObjectStore(toS3Options(config)), {
    trustedKeys: config.EDGETIER_TRUSTED_KEYS,
  });
  return withBundledArtifacts(published, deployment.artifacts);
}

function createCatalog({ config, clock, log }: Environment, store: ModelStore): ModelCatalog {
  return createModelCatalog({
    store,
    clock,
    aliasTtlMs: config.EDGETIER_ALIAS_TTL_MS,
    storeTimeoutMs: config.EDGETIER_S3_TIMEOUT_MS,
    onVersionRejected: ({ error, ...rejection }) =>
      log({ level: "error", event: "version_refused", ...rejection, cause: reasonOf(error) }),
  });
}

function createRegions({ config, clock, metrics }: Environment): RegionPool | undefined {
  const fetch = createSignedFetch(config.EDGETIER_REGION_KEY, {
    send: config.EDGETIER_REGION_CERTIFICATE,
  });
  return createConfiguredRegions(
    config,
    (baseUrl) => createOipHttpRegionClient({ baseUrl, fetch }),
    { clock, metrics },
  );
}

function createTracer({ config, clock, log, metrics }: Environment): Tracer {
  return createConfiguredTracer(config, {
    resource: { "service.name": "edgetier-edge" },
    clock,
    onSpansDropped: (reason, spans) =>
      metrics.count("edgetier_telemetry_dropped_total", { reason: `spans_${reason}` }, spans),
    log,
  });
}

/** @param restored sessions restored at module scope, whose startup time is not part of a request */
export const createWorker = (deployment: Deployment, restored: BundledSessions): Worker =>
  createConfiguredWorker((env) => createEdgeApp(env, deployment, restored), logToConsole);
