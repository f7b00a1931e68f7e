// Errors of sessions in worker processes and of execution providers.

import { errorFactory, type ErrorTable } from "../../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const nativeErrorTable = {
  session_lost: {
    status: 503,
    remedy: "Send the request again: another worker takes its place.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
  session_being_replaced: {
    status: 503,
    remedy: "Send the request again shortly, or ask another region.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
  session_not_replaced: {
    status: 503,
    remedy: "Ask another region; the operator should look at the log, and load the model again.",
    isRetryable: true,
    retryAfterSeconds: 30,
  },
  provider_too_slow: { status: 503, remedy: "Allow more time for it, or take it off the list." },
  provider_unavailable: {
    status: 503,
    remedy: "Remove the provider from the list, or install its libraries.",
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(nativeErrorTable);

export const nativeErrors = {
  sessionLost: (how: string) =>
    makeError(
      "session_lost",
      `The worker of this model's session ended ${how} before it had answered.`,
    ),
  sessionBeingReplaced: () =>
    makeError("session_being_replaced", "This model's session is being started again."),
  sessionNotReplaced: (tries: number, reason: string, cause: unknown) =>
    makeError(
      "session_not_replaced",
      `This model's session could not be started again in ${tries} tries: ${reason.trim().replace(/\.+$/, "")}.`,
      { cause },
    ),
  providerTooSlow: (limitMs: number) =>
    makeError("provider_too_slow", `It did not answer within ${limitMs} ms.`),
  providerUnavailable: (provider: string, reason: string, remedy: string) =>
    makeError(
      "provider_unavailable",
      `The execution provider ${provider} cannot be used: ${reason.trim().replace(/\.+$/, "")}.`,
      { remedy },
    ),
} as const;
