// Errors of the region server: queues, model loading, authentication.

import {
  EdgeTierError,
  formatValue,
  errorFactory,
  type ErrorTable,
  quoteName,
} from "../../core/errors.ts";

/** Status and remedy of each code of this module. */
export const regionServerErrorTable = {
  not_loaded: { status: 400, remedy: "Send it a request, which loads it." },
  signature_refused: {
    status: 401,
    remedy:
      "Sign requests to this region (RFC 9421, hmac-sha256) with a key of its EDGETIER_REGION_KEYS. On the edge, set the key as EDGETIER_REGION_KEY and check the clock.",
  },
  nonces_full: {
    status: 503,
    remedy:
      "Send fewer requests, or call another region; the operator can raise EDGETIER_REGION_MAX_NONCES.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
  request_expired: {
    status: 503,
    remedy: "Allow more time, or call another region.",
    isRetryable: true,
  },
  queue_full: {
    status: 503,
    remedy: "Send fewer concurrent requests, or call another region.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
  no_region_tier: { status: 404, remedy: "Call the edge, which serves its tiers." },
  model_unloaded: {
    status: 404,
    remedy:
      "Load it again with POST /v2/repository/models/{model}/load, or call another region that still serves it.",
  },
  version_unavailable: {
    status: 404,
    remedy:
      "List the available versions with POST /v2/repository/index; the operator selects them with EDGETIER_REGION_MODELS.",
  },
  warmup_failed: {
    status: 503,
    remedy: "Ask the operator to correct the tier's warm-up inputs, or to publish the model again.",
    isRetryable: true,
    retryAfterSeconds: 10,
  },
  model_too_large: {
    status: 503,
    remedy:
      "Call another region; the operator can raise EDGETIER_REGION_MODEL_BUDGET_BYTES or configure fewer instances.",
  },
  no_room: {
    status: 503,
    remedy:
      "Try again shortly, or call another region; the operator can raise EDGETIER_REGION_MODEL_BUDGET_BYTES.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
  draining: {
    status: 503,
    remedy: "Send the request again; another instance will accept it.",
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
        ? `requested model ${quoteName(model)} is not available: no version of it is loaded.`
        : `requested model version is not available for model ${quoteName(model)}: version ${version} is not loaded.`,
    ),
  loadFailed: (model: string, cause: EdgeTierError) => {
    const { code, status, detail, remedy, retryable, retryAfterSeconds } = cause;
    const reason = code === "model_not_found" ? "failed to poll from model repository." : detail;
    return new EdgeTierError({
      code,
      status,
      detail: `failed to load ${quoteName(model)}, ${reason}`,
      remedy,
      retryable,
      cause,
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    });
  },
  signatureRefused: (reason: string) =>
    makeError("signature_refused", `Request signature rejected: ${reason}.`),
  noncesFull: (maxNonces: number) =>
    makeError(
      "nonces_full",
      `The replay protection is full: it holds ${maxNonces} nonces of signed requests.`,
    ),
  requestExpired: () => makeError("request_expired", "Request timeout expired."),
  queueFull: (maxQueued: number) =>
    makeError("queue_full", `Exceeds maximum queue size of ${maxQueued}.`),
  noRegionTier: (model: string, version: number) =>
    makeError(
      "no_region_tier",
      `Model ${formatValue(model)} has no region tier in version ${version}.`,
    ),
  modelUnloaded: (model: string) =>
    makeError(
      "model_unloaded",
      `Request for unknown model: ${quoteName(model)} has no available versions; it was unloaded from this region.`,
    ),
  versionUnavailable: (model: string, version: number, reason: string) =>
    makeError(
      "version_unavailable",
      `Version ${version} of model ${formatValue(model)} is not available: ${reason}.`,
    ),
  warmupFailed: (run: string, tier: string, reason: string, cause: unknown) =>
    makeError("warmup_failed", `Warm-up ${formatValue(run)} of tier ${tier} failed: ${reason}`, {
      cause,
    }),
  modelTooLarge: (model: string, bytes: number, budgetBytes: number) =>
    makeError(
      "model_too_large",
      `Model ${model} needs ${bytes} bytes; the region's budget for all models is ${budgetBytes} bytes.`,
      { facts: { bytes, budgetBytes } },
    ),
  noRoom: (model: string, bytes: number) =>
    makeError(
      "no_room",
      `No memory for model ${model}, which needs ${bytes} bytes: all loaded models are in use.`,
      { facts: { bytes } },
    ),
  draining: () => makeError("draining", "This server is shutting down."),
} as const;
