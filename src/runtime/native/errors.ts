// Errors of sessions in worker processes and of execution providers.

import { errorFactory, type ErrorTable } from "../../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const nativeErrorTable = {
  session_lost: {
    status: 503,
    remedy: "Send the request again: a new worker replaces it.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
  session_being_replaced: {
    status: 503,
    remedy: "Send the request again shortly, or call another region.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
  session_not_replaced: {
    status: 503,
    remedy: "Call another region, or ask the operator to check the log and to reload the model.",
    isRetryable: true,
    retryAfterSeconds: 30,
  },
  provider_too_slow: {
    status: 503,
    remedy: "Increase the time limit, or remove the provider from the list.",
  },
  provider_unavailable: {
    status: 503,
    remedy: "Remove the provider from the list, or install its libraries.",
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(nativeErrorTable);

export const nativeErrors = {
  sessionLost: (exitReason: string) =>
    makeError(
      "session_lost",
      `The worker of this model's session ended ${exitReason} before it responded.`,
    ),
  sessionBeingReplaced: () =>
    makeError("session_being_replaced", "This model's session is restarting."),
  sessionNotReplaced: (attempts: number, reason: string, cause: unknown) =>
    makeError(
      "session_not_replaced",
      `This model's session failed to restart in ${attempts} attempts: ${reason.trim().replace(/\.+$/, "")}.`,
      { cause },
    ),
  providerTooSlow: (limitMs: number) =>
    makeError("provider_too_slow", `The execution provider did not respond within ${limitMs} ms.`),
  providerUnavailable: (provider: string, reason: string, remedy: string) =>
    makeError(
      "provider_unavailable",
      `The execution provider ${provider} is unavailable: ${reason.trim().replace(/\.+$/, "")}.`,
      { remedy },
    ),
} as const;
