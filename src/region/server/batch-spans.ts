// A session's run in traces: in each request's own tree what it waited and the run, and the batch as a span that several trees
// share, linked both ways.

import type { Tracer } from "../../core/tracing.ts";
import type { BatchRun } from "./executor.ts";

export function createBatchSpanRecorder(tracer: Tracer): (run: BatchRun) => void {
  return function record({
    tier: of,
    requestCount: works,
    rows,
    reason,
    inputMs,
    inferMs,
    outputMs,
    hasFailed: failed,
    startedAtMs: startedMs,
    tracedRequests: traced,
  }) {
    if (traced.length === 0) return;
    const endMs = startedMs + inputMs + inferMs + outputMs;
    const error = failed ? "run_failed" : undefined;
    const sampled = traced.flatMap(({ span }) => (span.isSampled ? [span] : []));
    const model = {
      "edgetier.model": of.model,
      "edgetier.version": of.version,
      "edgetier.tier": of.tier,
    };
    const facts = {
      ...model,
      "edgetier.batch.requests": works,
      "edgetier.batch.rows": rows,
      "edgetier.batch.reason": reason,
    };
    const batch = tracer.recordLinkedSpan(
      "batch",
      {
        ...facts,
        "edgetier.batch.merge_ms": inputMs,
        "edgetier.batch.infer_ms": inferMs,
        "edgetier.batch.split_ms": outputMs,
      },
      { startMs: startedMs, endMs },
      sampled,
      error,
    );
    for (const { span, queuedAtMs } of traced) {
      span.startChild("queue", {}, { startMs: queuedAtMs }).end(undefined, startedMs);
      span
        .startChild("run", facts, { startMs: startedMs, links: span.isSampled ? [batch] : [] })
        .end(error, endMs);
    }
  };
}
