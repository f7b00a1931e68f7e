// Errors of calls to a region.

import { errorFactory, type ErrorTable, type ErrorFields, quoteName } from "../core/errors.ts";

/** Status and remedy of each code of this module. */
export const regionErrorTable = {
  region_unavailable: {
    status: 503,
    remedy: "Try again shortly.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
  region_refused: {
    status: 502,
    remedy: "Ask the operator to check that edge and region serve the same model store.",
  },
  model_not_ready: {
    status: 400,
    remedy: "Try again shortly, when the model has been loaded.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(regionErrorTable);

export const regionErrors = {
  regionUnavailable: (reason: string, cause?: unknown, facts?: ErrorFields["facts"]) =>
    makeError("region_unavailable", `Region unavailable: ${reason}.`, {
      cause,
      ...(facts && { facts }),
    }),
  noRegionOpen: (openForMs: number) =>
    makeError(
      "region_unavailable",
      "All region circuits are open: the latest calls to each region failed.",
      {
        remedy: "Try again shortly; GET /v1/regions shows the state of each region.",
        retryable: true,
        retryAfterSeconds: Math.max(1, Math.ceil(openForMs / 1_000)),
      },
    ),
  regionRefused: (status: number, reason: string) =>
    makeError(
      "region_refused",
      `The region rejected the request with status ${status}: ${reason}.`,
    ),
  modelNotReady: (model: string) =>
    makeError("model_not_ready", `Model version not ready: ${quoteName(model)}.`),
} as const;
