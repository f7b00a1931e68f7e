// Shared by both S3 drivers: the timeout, condition headers, and the interpretation of S3's responses.

import { coreErrors } from "../../core/common-errors.ts";
import { type EdgeTierError } from "../../core/errors.ts";
import type { PutCondition } from "../object-store.ts";

export const DEFAULT_S3_TIMEOUT_MS = 30_000;

/** S3 responds with 412 if a condition does not hold, and with 409 if it lost against a concurrent write. */
export const isPreconditionFailure = (status: number | undefined): boolean =>
  status === 412 || status === 409;

/** Any other 404 is a missing bucket or a proxy's response. Trusting it would make every model look deleted. */
export const isNoSuchKey = (status: number | undefined, code: string | undefined): boolean =>
  status === 404 && code === "NoSuchKey";

export function toConditionHeaders(condition: PutCondition): {
  "if-none-match"?: "*";
  "if-match"?: string;
} {
  if (condition.kind === "absent") return { "if-none-match": "*" };
  return condition.kind === "etag" ? { "if-match": condition.etag } : {};
}

/** Creates the error for a response that is neither success nor a missing object. */
export function createS3Error(status: number, code: string | undefined): EdgeTierError {
  return coreErrors.storeUnavailable(
    `S3 responded with ${status}${code === undefined ? "" : ` ${code}`}`,
  );
}
