// Converts the failures of all ObjectStore drivers to one error.

import { coreErrors } from "../../core/common-errors.ts";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";

/** Wraps a failure as model_store_unavailable, with the reason of its root cause ("connect ECONNREFUSED …"). */
export function toStoreError(error: unknown): EdgeTierError {
  if (error instanceof EdgeTierError) return error;
  let root = error;
  while (root instanceof Error && root.cause instanceof Error) root = root.cause;
  if (root instanceof AggregateError && root.errors.length > 0) root = root.errors[0];
  return coreErrors.storeUnavailable(reasonOf(root) || "no reason reported", error);
}
