// Cascade errors: reasons for which a tier is skipped.

import { errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const cascadeErrorTable = {
  deadline_too_near: {
    status: 504,
    remedy: "Send a larger x-deadline-ms.",
    isRetryable: true,
  },
  tier_saturated: {
    status: 503,
    remedy: "Retry shortly.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(cascadeErrorTable);

export const cascadeErrors = {
  deadlineTooNear: (tier: string, remainingMs: number, p95Ms: number) =>
    makeError(
      "deadline_too_near",
      `Tier ${tier} has a p95 latency of ${Math.ceil(p95Ms)} ms; ${Math.floor(remainingMs)} ms remain.`,
    ),
  tierSaturated: (tier: string) => makeError("tier_saturated", `Tier ${tier} is saturated.`),
} as const;
