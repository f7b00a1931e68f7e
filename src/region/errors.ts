// Errors of calling a region.

import { errorFactory, type ErrorTable, type ErrorFields, quoted } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const regionErrorTable = {
  region_unavailable: {
    status: 503,
    remedy: "Try again shortly.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
  region_refused: {
    status: 502,
    remedy: "The operator should check that edge and region serve the same model store.",
  },
  model_not_ready: {
    status: 400,
    remedy: "It is being loaded; ask again shortly.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(regionErrorTable);

export const regionErrors = {
  regionUnavailable: (reason: string, cause?: unknown, facts?: ErrorFields["facts"]) =>
    makeError("region_unavailable", `The region cannot answer: ${reason}.`, {
      cause,
      ...(facts && { facts }),
    }),
  noRegionOpen: (openForMs: number) =>
    makeError(
      "region_unavailable",
      "No region is asked at present: the last calls to each of them have failed.",
      {
        remedy: "Try again shortly; GET /v1/regions tells how they are.",
        retryable: true,
        retryAfterSeconds: Math.max(1, Math.ceil(openForMs / 1_000)),
      },
    ),
  regionRefused: (status: number, reason: string) =>
    makeError("region_refused", `The region refused the request with status ${status}: ${reason}.`),
  modelNotReady: (model: string) =>
    makeError("model_not_ready", `Model version not ready: ${quoted(model)}.`),
} as const;
