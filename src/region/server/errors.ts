// Errors of the region server: queues, loading, trust.

import { EdgeTierError, shown, errorFactory, type ErrorTable, quoted } from "../../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const regionServerErrorTable = {
  not_loaded: { status: 400, remedy: "It is loaded with its first request." },
  signature_refused: {
    status: 401,
    remedy:
      "Requests to this region are signed (RFC 9421, hmac-sha256) with a key of its EDGETIER_REGION_KEYS; an edge has it as EDGETIER_REGION_KEY, and a clock that is right.",
  },
  nonces_full: {
    status: 503,
    remedy:
      "Send fewer requests, or ask another region; the operator can raise EDGETIER_REGION_MAX_NONCES.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
  request_expired: {
    status: 503,
    remedy: "Allow more time, or ask another region.",
    isRetryable: true,
  },
  queue_full: {
    status: 503,
    remedy: "Send fewer requests at once, or ask another region.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
  no_region_tier: { status: 404, remedy: "Ask the edge, which serves its tiers." },
  model_unloaded: {
    status: 404,
    remedy:
      "POST /v2/repository/models/{model}/load loads it again; another region may still serve it.",
  },
  version_unavailable: {
    status: 404,
    remedy:
      "POST /v2/repository/index lists what is; the operator chooses by EDGETIER_REGION_MODELS.",
  },
  warmup_failed: {
    status: 503,
    remedy: "The operator should correct the tier's warm-up inputs, or publish the model again.",
    isRetryable: true,
    retryAfterSeconds: 10,
  },
  model_too_large: {
    status: 503,
    remedy:
      "Ask another region; the operator should raise EDGETIER_REGION_MODEL_BUDGET_BYTES, or serve it with fewer instances.",
  },
  no_room: {
    status: 503,
    remedy:
      "Try again shortly, or ask another region; the operator should raise EDGETIER_REGION_MODEL_BUDGET_BYTES.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
  draining: {
    status: 503,
    remedy: "Send the request again; another instance will take it.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(regionServerErrorTable);

export const regionServerErrors = {
  notLoaded: (model: string, version?: number) =>
    makeError(
      "not_loaded",
      version === undefined
        ? `requested model ${quoted(model)} is not available: no version of it is loaded.`
        : `requested model version is not available for model ${quoted(model)}: version ${version} is not loaded.`,
    ),
  loadFailed: (model: string, cause: EdgeTierError) => {
    const { code, status, detail, remedy, retryable, retryAfterSeconds } = cause;
    const why = code === "model_not_found" ? "failed to poll from model repository." : detail;
    return new EdgeTierError({
      code,
      status,
      detail: `failed to load ${quoted(model)}, ${why}`,
      remedy,
      retryable,
      cause,
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    });
  },
  signatureRefused: (reason: string) =>
    makeError("signature_refused", `The request's signature was refused: ${reason}.`),
  noncesFull: (maxNonces: number) =>
    makeError(
      "nonces_full",
      `This region remembers ${maxNonces} signed requests, and cannot tell a further one from one that is sent again.`,
    ),
  requestExpired: () => makeError("request_expired", "Request timeout expired."),
  queueFull: (maxQueued: number) =>
    makeError("queue_full", `Exceeds maximum queue size of ${maxQueued}.`),
  noRegionTier: (model: string, version: number) =>
    makeError("no_region_tier", `Model ${shown(model)} has no region tier in version ${version}.`),
  modelUnloaded: (model: string) =>
    makeError(
      "model_unloaded",
      `Request for unknown model: ${quoted(model)} has no available versions; it was unloaded from this region.`,
    ),
  versionUnavailable: (model: string, version: number, reason: string) =>
    makeError(
      "version_unavailable",
      `Version ${version} of model ${shown(model)} is not available: ${reason}.`,
    ),
  warmupFailed: (name: string, tier: string, reason: string, cause: unknown) =>
    makeError("warmup_failed", `Warm-up ${shown(name)} of tier ${tier} failed: ${reason}`, {
      cause,
    }),
  modelTooLarge: (model: string, bytes: number, budgetBytes: number) =>
    makeError(
      "model_too_large",
      `${model} takes ${bytes} bytes; this region has ${budgetBytes} for all models.`,
      { facts: { bytes, budgetBytes } },
    ),
  noRoom: (model: string, bytes: number) =>
    makeError(
      "no_room",
      `There is no room for ${model}, which takes ${bytes} bytes: all that is loaded is in use.`,
      { facts: { bytes } },
    ),
  draining: () => makeError("draining", "This server is shutting down."),
} as const;
