// The Worker on a deployment: builds the application from its bindings and hands requests to it.

import { systemClock } from "../../src/core/clock.ts";
import { reasonOf } from "../../src/core/errors.ts";
import { createConfiguredAccessPolicy } from "../../src/http/access/drivers/configured-access-policy.ts";
import { createApp } from "../../src/http/app.ts";
import { parseEdgeConfig } from "../../src/http/config.ts";
import { createOipHttpRegionClient } from "../../src/region/drivers/oip-http.ts";
import { createSignedFetch } from "../../src/region/signed-fetch.ts";
import { withBundledArtifacts } from "../../src/registry/bundled-artifacts.ts";
import { createS3FetchObjectStore } from "../../src/registry/drivers/s3-fetch.ts";
import { toS3Options } from "../../src/registry/s3-config.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import type { Deployment } from "../../src/runtime/wasm/deployment.ts";
import type { BundledSessions } from "../../src/runtime/wasm/restore-bundled-snapshots.ts";
import { createModelCatalog, type RejectedVersion } from "../../src/serving/model-catalog.ts";
import { createConfiguredRegions } from "../../src/serving/configured-regions.ts";
import { createDriftCheck } from "../../src/serving/drift-check.ts";
import { createEdgeSessions } from "../../src/serving/edge-sessions.ts";
import { createEmbedder } from "../../src/serving/embedder.ts";
import { createPredictor } from "../../src/serving/predictor.ts";
import { createLoadedModelCache } from "../../src/serving/loaded-model.ts";
import { createOpenInferenceModels } from "../../src/serving/open-inference-models.ts";
import { createImageDecoder } from "../../src/tasks/image/image-decoder.ts";
import { NOOP_METRICS } from "../../src/telemetry/metrics-recorder.ts";
import { redactSecrets } from "../../src/telemetry/redacted-log.ts";
import { createConfiguredTracer } from "../../src/telemetry/trace-config.ts";
import { createCacheLayers } from "./cache-layers.ts";
import { createConfiguredWorker, type Worker } from "./configured-worker.ts";
import { createEdgeTelemetry } from "./edge-telemetry.ts";

const logToConsole = (record: Readonly<Record<string, unknown>>): void =>
  console[record["level"] === "info" ? "debug" : "error"](JSON.stringify(record));

/** @throws invalid_configuration */
function createEdgeApp(
  env: object,
  deployment: Deployment,
  restored: BundledSessions,
): ReturnType<typeof createApp> {
  const config = parseEdgeConfig(env);
  const log = redactSecrets(logToConsole, config);
  const clock = systemClock;
  const published = createModelStore(createS3FetchObjectStore(toS3Options(config)), {
    trustedKeys: config.EDGETIER_TRUSTED_KEYS,
  });
  const store = withBundledArtifacts(published, deployment.artifacts);
  const storeTimeoutMs = config.EDGETIER_S3_TIMEOUT_MS;
  const onVersionRejected = ({ error, ...refused }: RejectedVersion) =>
    log({ level: "error", event: "version_refused", ...refused, cause: reasonOf(error) });
  const catalog = createModelCatalog({
    store,
    clock,
    aliasTtlMs: config.EDGETIER_ALIAS_TTL_MS,
    storeTimeoutMs,
    onVersionRejected,
  });
  const telemetry = createEdgeTelemetry(config, { clock, log });
  const metrics = telemetry?.metrics ?? NOOP_METRICS;
  const onSpansDropped = (reason: string, spans: number) =>
    metrics.count("edgetier_telemetry_dropped_total", { reason: `spans_${reason}` }, spans);
  const tracer = createConfiguredTracer(config, {
    resource: { "service.name": "edgetier-edge" },
    clock,
    onSpansDropped,
    log,
  });
  const regionFetch = createSignedFetch(config.EDGETIER_REGION_KEY, {
    send: config.EDGETIER_REGION_CERTIFICATE,
  });
  const regions = createConfiguredRegions(
    config,
    (baseUrl) => createOipHttpRegionClient({ baseUrl, fetch: regionFetch }),
    { clock, metrics },
  );
  const sessions = createEdgeSessions({
    deployment,
    restored,
    store,
    storeTimeoutMs,
    metrics,
    log,
  });
  const imageDecoder = deployment.images && createImageDecoder(deployment.images);
  const tiers = { store, sessions, imageDecoder, storeTimeoutMs, region: regions };
  const getLoadedModel = createLoadedModelCache(tiers, config.EDGETIER_MAX_LOADED_VERSIONS);
  const maxInputs = config.EDGETIER_MAX_INPUTS;
  const openInferenceModels = createOpenInferenceModels({
    catalog,
    getLoadedModel,
    tiers,
    clock,
    maxInputs,
    metrics,
  });
  const answering = {
    catalog,
    getLoadedModel,
    clock,
    cacheLayers: createCacheLayers(config, clock, log),
    maxInputs,
    metrics,
  };
  const driftCheck = createDriftCheck({
    sampleRate: config.EDGETIER_DRIFT_SHARE,
    maxConcurrent: config.EDGETIER_DRIFT_MAX_CHECKS,
    clock,
    metrics,
  });
  const predictor = createPredictor({ ...answering, driftCheck });
  const embedder = createEmbedder({ ...answering, maxTokens: config.EDGETIER_MAX_TOKENS });
  return createApp({
    telemetry,
    catalog,
    predictor,
    embedder,
    defaultEmbeddingModel: config.EDGETIER_EMBEDDING_MODEL,
    openInferenceModels,
    sessions,
    regionPool: regions,
    access: createConfiguredAccessPolicy(config, { clock, log }),
    clock,
    log,
    tracer,
    isAccessLogEnabled: config.EDGETIER_ACCESS_LOG === "on",
    maxInFlight: config.EDGETIER_MAX_IN_FLIGHT,
    cdnAliasSeconds: config.EDGETIER_CDN_ALIAS_SECONDS,
    maxBodyBytes: config.EDGETIER_MAX_BODY_BYTES,
    maxImageBodyBytes: config.EDGETIER_MAX_IMAGE_BODY_BYTES,
    maxTensorBodyBytes: config.EDGETIER_MAX_TENSOR_BODY_BYTES,
  });
}

/** @param restored at module scope, where there is time for it */
export const createWorker = (deployment: Deployment, restored: BundledSessions): Worker =>
  createConfiguredWorker((env) => createEdgeApp(env, deployment, restored), logToConsole);
