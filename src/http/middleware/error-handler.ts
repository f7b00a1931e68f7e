// Error handler: converts every error to a response with its status and `retry-after`. The body is problem details, with
// OpenAI's fields on the embeddings route, or the Open Inference Protocol's error under /v2.

import type { Context, ErrorHandler } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { asEdgeTierError, type EdgeTierError, reasonOf } from "../../core/errors.ts";
import { EMBEDDINGS_PATH, toEmbeddingsProblem } from "../../protocol/embeddings.ts";
import { toTritonStatus } from "../../protocol/open-inference-http.ts";
import { PROBLEM_MEDIA_TYPE, toProblemDetails } from "../../protocol/problem-details.ts";
import type { AppEnv } from "../app-env.ts";

/** @param log receives every 5xx with its cause, which the client does not see */
export function errorHandler(
  log: (record: Readonly<Record<string, unknown>>) => void,
): ErrorHandler<AppEnv> {
  return function toProblem(thrown, c) {
    const error = asEdgeTierError(thrown);
    const requestId = c.get("requestId") ?? "";
    if (error.status >= 500) {
      log({
        level: "error",
        event: "request_failed",
        requestId,
        traceId: c.get("span")?.traceId,
        code: error.code,
        detail: error.detail,
        ...(error.cause === undefined ? {} : { cause: reasonOf(error.cause) }),
      });
    }
    if (error.retryAfterSeconds !== undefined)
      c.header("retry-after", String(error.retryAfterSeconds));
    if (error.code === "unsupported_encoding") c.header("accept-encoding", "gzip, deflate");
    c.header("cache-control", "no-store");
    return /^\/v2(\/|$)/.test(c.req.path)
      ? openInferenceError(c, error)
      : problemDetails(c, error, requestId);
  };
}

const openInferenceError = (c: Context, error: EdgeTierError): Response =>
  c.json({ error: error.message }, toTritonStatus(error) as ContentfulStatusCode);

const problemDetails = (c: Context, error: EdgeTierError, requestId: string): Response =>
  c.body(
    JSON.stringify(
      c.req.path === EMBEDDINGS_PATH
        ? toEmbeddingsProblem(error, requestId)
        : toProblemDetails(error, requestId),
    ),
    error.status as ContentfulStatusCode,
    { "content-type": PROBLEM_MEDIA_TYPE },
  );
