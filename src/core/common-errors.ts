// Errors shared by several layers: bad tensors, failed sessions, deadlines, configuration.

import { formatValue, errorFactory, type ErrorTable } from "./errors.ts";

/** Status and remedy of each code that this module owns. */
export const coreErrorTable = {
  invalid_utf8: { status: 400, remedy: "Encode text as UTF-8." },
  invalid_request: { status: 400, remedy: "See /openapi.json for the schema." },
  unsupported_media_type: { status: 415, remedy: "Use one of: {allowed}." },
  no_such_tier: { status: 400, remedy: "Use one of its tiers: {tiers}." },
  invalid_tensor: { status: 400, remedy: "See GET /v2/models/{model} for the inputs." },
  model_store_unavailable: {
    status: 503,
    remedy: "Retry shortly, or ask the operator to check the S3 endpoint and credentials.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
  manifest_invalid: {
    status: 503,
    remedy: "Ask the operator to publish the model again.",
    isRetryable: true,
    retryAfterSeconds: 10,
  },
  deadline_exceeded: {
    status: 504,
    remedy: "Allow more time with x-deadline-ms.",
    isRetryable: true,
  },
  session_failed: {
    status: 500,
    remedy: "Ask the operator to check the model with `edgetier model inspect`.",
  },
  request_cancelled: {
    status: 499,
    remedy: "Send the request again if the response is still needed.",
    isRetryable: true,
  },
  invalid_configuration: { status: 500, remedy: "Correct these variables and restart." },
  unsupported: { status: 501, remedy: "Use a supported alternative." },
} as const satisfies ErrorTable;

const makeError = errorFactory(coreErrorTable);

export const coreErrors = {
  invalidUtf8: (subject: string) => makeError("invalid_utf8", `${subject} is not valid UTF-8.`),
  invalidRequest: (problems: readonly string[]) =>
    makeError("invalid_request", `Invalid request: ${problems.join("; ")}.`),
  unsupportedMediaType: (mediaType: string, allowed: readonly string[]) =>
    makeError("unsupported_media_type", `Unsupported media type ${formatValue(mediaType)}.`, {
      values: { allowed: allowed.join(", ") },
    }),
  noSuchTier: (model: string, tier: string, tiers: readonly string[]) =>
    makeError("no_such_tier", `Model ${formatValue(model)} has no tier ${formatValue(tier)}.`, {
      values: { tiers: tiers.join(", ") },
    }),
  invalidTensor: (name: string, reason: string) =>
    makeError("invalid_tensor", `Tensor ${formatValue(name)}: ${reason}.`),
  storeUnavailable: (reason: string, cause?: unknown) =>
    makeError("model_store_unavailable", `The model store cannot be read: ${reason}.`, { cause }),
  manifestInvalid: (model: string, version: number, problems: readonly string[]) =>
    makeError(
      "manifest_invalid",
      `The manifest of ${model}@${version} is invalid: ${problems.join("; ")}.`,
    ),
  deadlineExceeded: (deadlineMs: number) =>
    makeError("deadline_exceeded", `No tier responded within ${deadlineMs} ms.`),
  sessionFailed: (reason: string, cause?: unknown) =>
    makeError("session_failed", `ONNX Runtime failed: ${reason.trim().replace(/\.+$/, "")}.`, {
      cause,
    }),
  requestCancelled: () =>
    makeError("request_cancelled", "The client disconnected before the response was ready."),
  invalidConfiguration: (problems: readonly string[]) =>
    makeError(
      "invalid_configuration",
      `The configuration is invalid:\n${problems.map((problem) => `  - ${problem}`).join("\n")}\n`,
    ),
  unsupported: (feature: string, remedy: string) =>
    makeError("unsupported", `${feature} is not supported.`, { remedy }),
} as const;
