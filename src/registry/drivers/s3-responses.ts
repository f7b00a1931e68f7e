// What both S3 drivers share: their time-out, and how they turn S3's answers into the port's words.

import { coreErrors } from "../../core/common-errors.ts";
import { type EdgeTierError } from "../../core/errors.ts";
import type { PutCondition } from "../object-store.ts";

export const DEFAULT_S3_TIMEOUT_MS = 30_000;

/** S3 answers 412 to a condition that does not hold, and 409 to one that lost against a write at the same moment. */
export const isPreconditionFailure = (status: number | undefined): boolean =>
  status === 412 || status === 409;

/** Any other 404 is a missing bucket, or of something on the way: to believe it would take every model for deleted. */
export const isNoSuchKey = (status: number | undefined, code: string | undefined): boolean =>
  status === 404 && code === "NoSuchKey";

export function toConditionHeaders(condition: PutCondition): {
  "if-none-match"?: "*";
  "if-match"?: string;
} {
  if (condition.kind === "absent") return { "if-none-match": "*" };
  return condition.kind === "etag" ? { "if-match": condition.etag } : {};
}

/** An answer that is neither success nor "there is no such object". */
export function createS3Error(status: number, code: string | undefined): EdgeTierError {
  return coreErrors.storeUnavailable(
    `S3 answered ${status}${code === undefined ? "" : ` ${code}`}`,
  );
}
