// Records batches in traces. Each request's own trace gets its queue time and the run; the batch is one shared span, linked
// with them in both directions.

import type { Tracer } from "../../core/tracing.ts";
import type { BatchRun } from "./executor.ts";

export function createBatchSpanRecorder(tracer: Tracer): (run: BatchRun) => void {
  return function recordBatchSpans({
    tier,
    requestCount,
    rows,
    reason,
    inputMs,
    inferMs,
    outputMs,
    hasFailed,
    startedAtMs,
    tracedRequests,
  }) {
    if (tracedRequests.length === 0) return;
    const endMs = startedAtMs + inputMs + inferMs + outputMs;
    const error = hasFailed ? "run_failed" : undefined;
    const sampled = tracedRequests.flatMap(({ span }) => (span.isSampled ? [span] : []));
    const attributes = {
      "edgetier.model": tier.model,
      "edgetier.version": tier.version,
      "edgetier.tier": tier.tier,
      "edgetier.batch.requests": requestCount,
      "edgetier.batch.rows": rows,
      "edgetier.batch.reason": reason,
    };
    const batch = tracer.recordLinkedSpan(
      "batch",
      {
        ...attributes,
        "edgetier.batch.merge_ms": inputMs,
        "edgetier.batch.infer_ms": inferMs,
        "edgetier.batch.split_ms": outputMs,
      },
      { startMs: startedAtMs, endMs },
      sampled,
      error,
    );
    for (const { span, queuedAtMs } of tracedRequests) {
      span.startChild("queue", {}, { startMs: queuedAtMs }).end(undefined, startedAtMs);
      span
        .startChild("run", attributes, {
          startMs: startedAtMs,
          links: span.isSampled ? [batch] : [],
        })
        .end(error, endMs);
    }
  };
}
