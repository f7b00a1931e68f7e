// Errors of routes and access at the edge.

import { reasonOf, shown, errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const httpErrorTable = {
  repeated_parameter: { status: 400, remedy: "Give it once; POST or QUERY takes several inputs." },
  missing_input: { status: 400, remedy: "Add ?input=some+text, or POST a JSON body." },
  no_report: {
    status: 404,
    remedy:
      "`edgetier model calibrate` writes one, and `edgetier model publish` publishes it with the next version.",
  },
  missing_model: {
    status: 400,
    remedy: 'Send {"model": "<name>"}; the operator can set EDGETIER_EMBEDDING_MODEL.',
  },
  missing_credential: {
    status: 401,
    remedy:
      "Send authorization: Bearer <key>; the operator makes keys with `edgetier keys create`.",
  },
  invalid_credential: {
    status: 401,
    remedy:
      "Send a valid one as authorization: Bearer <key>; the operator makes keys with `edgetier keys create`.",
  },
  missing_scope: { status: 403, remedy: "Ask the operator for a credential with that scope." },
  model_not_allowed: { status: 403, remedy: "GET /v1/models lists those that it is for." },
  rate_limited: { status: 429, remedy: "Wait as long as retry-after says.", isRetryable: true },
  identity_unavailable: {
    status: 503,
    remedy: "Try again shortly; the operator should check EDGETIER_JWT_JWKS_URL.",
    isRetryable: true,
    retryAfterSeconds: 2,
  },
  overloaded: {
    status: 503,
    remedy: "Try again shortly; the operator can raise EDGETIER_MAX_IN_FLIGHT.",
    isRetryable: true,
  },
  metrics_unavailable: {
    status: 503,
    remedy: "Ask again shortly: requests are answered meanwhile, and counted.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(httpErrorTable);

export const httpErrors = {
  repeatedParameter: (name: string) =>
    makeError("repeated_parameter", `The query has the parameter ${shown(name)} more than once.`),
  missingInput: () => makeError("missing_input", "The query has no 'input' parameter."),
  noReport: (model: string, version: number) =>
    makeError("no_report", `Version ${version} of model ${shown(model)} has no report.`),
  missingModel: () =>
    makeError("missing_model", "The request names no model, and there is none by default."),
  missingCredential: () =>
    makeError("missing_credential", "This needs a credential, and the request has none."),
  invalidCredential: (reason: string) =>
    makeError("invalid_credential", `The credential was refused: ${reason}.`),
  missingScope: (scope: string, has: readonly string[]) =>
    makeError(
      "missing_scope",
      `This needs the scope ${scope}; the credential has ${has.length === 0 ? "none" : has.join(", ")}.`,
    ),
  modelNotAllowed: (model: string) =>
    makeError("model_not_allowed", `The credential is not for the model ${shown(model)}.`),
  rateLimited: (requests: number, windowSeconds: number, retryAfterSeconds: number) =>
    makeError("rate_limited", `More than ${requests} requests within ${windowSeconds} s.`, {
      retryAfterSeconds,
    }),
  identityUnavailable: () =>
    makeError(
      "identity_unavailable",
      "The credential cannot be checked: the keys of the tokens' issuer cannot be fetched.",
    ),
  overloaded: (maxInFlight: number, status: 429 | 503, retryAfterSeconds: number) =>
    makeError(
      "overloaded",
      `${maxInFlight} requests are being answered here already, and no more are taken.`,
      { status, retryAfterSeconds },
    ),
  metricsUnavailable: (cause: unknown) =>
    makeError("metrics_unavailable", `What is counted cannot be read: ${reasonOf(cause)}.`, {
      cause,
    }),
} as const;
