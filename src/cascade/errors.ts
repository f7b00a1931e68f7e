// Errors of tiers that are skipped.

import { errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const cascadeErrorTable = {
  deadline_too_near: {
    status: 504,
    remedy: "Allow more time with x-deadline-ms.",
    isRetryable: true,
  },
  tier_saturated: {
    status: 503,
    remedy: "Try again shortly.",
    isRetryable: true,
    retryAfterSeconds: 1,
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(cascadeErrorTable);

export const cascadeErrors = {
  deadlineTooNear: (tier: string, remainingMs: number, p95Ms: number) =>
    makeError(
      "deadline_too_near",
      `Tier ${tier} takes up to ${Math.ceil(p95Ms)} ms, and ${Math.floor(remainingMs)} ms are left.`,
    ),
  tierSaturated: (tier: string) =>
    makeError("tier_saturated", `Tier ${tier} has more to do than it can.`),
} as const;
