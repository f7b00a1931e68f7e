// HTTP errors: failures of the edge's routes and access control.

import { reasonOf, formatValue, errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const httpErrorTable = {
  repeated_parameter: {
    status: 400,
    remedy: "Send it once; use POST or QUERY for several inputs.",
  },
  missing_input: { status: 400, remedy: "Add ?input=some+text, or POST a JSON body." },
  no_report: {
    status: 404,
    remedy: "Run `edgetier model calibrate`, then publish a version with `edgetier model publish`.",
  },
  missing_model: {
    status: 400,
    remedy: 'Send {"model": "<name>"}, or have the operator set EDGETIER_EMBEDDING_MODEL.',
  },
  missing_credential: {
    status: 401,
    remedy:
      "Send authorization: Bearer <key>; the operator creates keys with `edgetier keys create`.",
  },
  invalid_credential: {
    status: 401,
    remedy:
      "Send a valid one as authorization: Bearer <key>; the operator creates keys with `edgetier keys create`.",
  },
  missing_scope: { status: 403, remedy: "Request a credential with that scope from the operator." },
  model_not_allowed: { status: 403, remedy: "Use a model that GET /v1/models lists." },
  rate_limited: {
    status: 429,
    remedy: "Wait for the seconds in retry-after, then retry.",
    isRetryable: true,
  },
  identity_unavailable: {
    status: 503,
    remedy: "Retry shortly; the operator should check EDGETIER_JWT_JWKS_URL.",
    isRetryable: true,
    retryAfterSeconds: 2,
  },
  overloaded: {
    status: 503,
    remedy: "Retry shortly; the operator can raise EDGETIER_MAX_IN_FLIGHT.",
    isRetryable: true,
  },
  metrics_unavailable: {
    status: 503,
    remedy: "Retry shortly; other requests are still served and counted.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(httpErrorTable);

export const httpErrors = {
  repeatedParameter: (name: string) =>
    makeError("repeated_parameter", `The query repeats the parameter ${formatValue(name)}.`),
  missingInput: () => makeError("missing_input", "The query parameter 'input' is missing."),
  noReport: (model: string, version: number) =>
    makeError("no_report", `Version ${version} of model ${formatValue(model)} has no report.`),
  missingModel: () =>
    makeError(
      "missing_model",
      "The request names no model, and the deployment has no default model.",
    ),
  missingCredential: () =>
    makeError("missing_credential", "The request has no credential, and this route requires one."),
  /** @param problem identifier of the reason, for tests and logs */
  invalidCredential: (problem: string, reason: string) =>
    makeError("invalid_credential", `Invalid credential: ${reason}.`, { facts: { problem } }),
  missingScope: (scope: string, granted: readonly string[]) =>
    makeError(
      "missing_scope",
      `This route requires the scope ${scope}; the credential has ${granted.length === 0 ? "none" : granted.join(", ")}.`,
    ),
  modelNotAllowed: (model: string) =>
    makeError(
      "model_not_allowed",
      `The credential does not allow the model ${formatValue(model)}.`,
    ),
  rateLimited: (requests: number, windowSeconds: number, retryAfterSeconds: number) =>
    makeError(
      "rate_limited",
      `The rate limit of ${requests} requests per ${windowSeconds} s is exceeded.`,
      {
        retryAfterSeconds,
      },
    ),
  identityUnavailable: () =>
    makeError(
      "identity_unavailable",
      "The credential cannot be verified because the token issuer's keys cannot be fetched.",
    ),
  overloaded: (maxInFlight: number, status: 429 | 503, retryAfterSeconds: number) =>
    makeError(
      "overloaded",
      `The edge is overloaded: ${maxInFlight} requests are in flight, its maximum.`,
      { status, retryAfterSeconds },
    ),
  metricsUnavailable: (cause: unknown) =>
    makeError("metrics_unavailable", `The metrics cannot be read: ${reasonOf(cause)}.`, {
      cause,
    }),
} as const;
