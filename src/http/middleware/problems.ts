// Turns every error into problem details, with its status and `retry-after`.

import type { ErrorHandler } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { asEdgeTierError, reasonOf } from "../../core/errors.ts";
import { PROBLEM_MEDIA_TYPE, problemOf } from "../../protocol/problem.ts";
import type { AppEnv } from "../app-env.ts";

/** @param log is told of every 5xx, with the cause that the client does not see */
export function problems(log: (record: Readonly<Record<string, unknown>>) => void): ErrorHandler<AppEnv> {
  return function toProblem(thrown, c) {
    const error = asEdgeTierError(thrown);
    const requestId = c.get("requestId") ?? "";
    if (error.status >= 500) {
      log({ level: "error", event: "request_failed", requestId, code: error.code, detail: error.detail, ...(error.cause === undefined ? {} : { cause: reasonOf(error.cause) }) });
    }
    if (error.retryAfterSeconds !== undefined) c.header("retry-after", String(error.retryAfterSeconds));
    c.header("cache-control", "no-store");
    return c.body(JSON.stringify(problemOf(error, requestId)), error.status as ContentfulStatusCode, { "content-type": PROBLEM_MEDIA_TYPE });
  };
}
