// Trace configuration of edge and region: environment variables, and the tracer that they configure.

import * as z from "zod";
import type { Clock } from "../core/clock.ts";
import { httpUrlText, integerText } from "../core/config.ts";
import { type SpanAttributes, passthroughTracer, type Tracer } from "../core/tracing.ts";
import { VERSION } from "../core/version.ts";
import { encodeSpans } from "./otlp.ts";
import { createSpanExporter, type SpanDropReason } from "./span-exporter.ts";
import { createTracer } from "./tracer.ts";

/** Format of OTEL_EXPORTER_OTLP_HEADERS: `name=value,name=value`, with percent-encoded values. */
const otlpHeaders = z.string().transform((text, context) => {
  const pairs = text
    .split(",")
    .map((pair) => /^ *([\w!#$%&'*+.^`|~-]+) *= *([\x21-\x7e]*) *$/.exec(pair)?.slice(1) ?? []);
  try {
    return Object.fromEntries(
      new Headers(
        pairs.map(([name = "", value = ""]): [string, string] => [name, decodeURIComponent(value)]),
      ),
    );
  } catch {
    context.addIssue({
      code: "custom",
      message: "must be comma-separated name=value pairs with percent-encoded values",
    });
    return z.NEVER;
  }
});

export const traceVariables = {
  /** URL of an OTLP/HTTP collector, without `/v1/traces`. If absent, trace contexts are only forwarded. */
  EDGETIER_OTLP_URL: httpUrlText().optional(),
  /** Secret: headers for the collector. */
  EDGETIER_OTLP_HEADERS: otlpHeaders.default({}),
  /** Sampling ratio for requests without a trace context, from 0 to 1. */
  EDGETIER_TRACE_SHARE: z.coerce.number().min(0).max(1).default(0.01),
  /**
   * Additional traces per second in each isolate or region server. One such budget is for traces that clients request,
   * another one for failed and degraded requests.
   */
  EDGETIER_TRACE_EXTRA_PER_SECOND: integerText(10, 0, 100_000),
};

type TraceVariables = z.output<z.ZodObject<typeof traceVariables>>;

export interface ConfiguredTracerOptions {
  /** Attributes of this service, such as `service.name`. */
  readonly resource: SpanAttributes;
  readonly clock: Clock;
  /** Called with the number of lost spans. */
  readonly onSpansDropped: (reason: SpanDropReason, spans: number) => void;
  readonly log: (record: Readonly<Record<string, unknown>>) => void;
}

const SEND_TIMEOUT_MS = 5_000;
const LOG_INTERVAL_MS = 60_000;
const exportResponse = z.object({ partialSuccess: z.object({ rejectedSpans: z.coerce.number() }) });

export function createConfiguredTracer(
  config: TraceVariables,
  { resource, clock, onSpansDropped, log }: ConfiguredTracerOptions,
): Tracer {
  const {
    EDGETIER_OTLP_URL: url,
    EDGETIER_OTLP_HEADERS: collectorHeaders,
    EDGETIER_TRACE_SHARE: sampleRatio,
    EDGETIER_TRACE_EXTRA_PER_SECOND: extraTracesPerSecond,
  } = config;
  if (url === undefined) return passthroughTracer;
  const resourceAttributes = { "service.version": VERSION, ...resource };
  let loggedAtMs = -Infinity;
  const exporter = createSpanExporter({
    clock,
    onDropped(reason, spans, cause) {
      onSpansDropped(reason, spans);
      if (clock.now() - loggedAtMs < LOG_INTERVAL_MS) return;
      loggedAtMs = clock.now();
      log({ level: "warn", event: "spans_dropped", reason, spans, cause });
    },
    async send(spans) {
      const response = await fetch(`${url}/v1/traces`, {
        method: "POST",
        headers: { ...collectorHeaders, "content-type": "application/json" },
        body: encodeSpans(resourceAttributes, spans),
        signal: AbortSignal.timeout(SEND_TIMEOUT_MS),
        redirect: "manual",
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`the collector responded with status ${response.status}`);
      return parseRejectedSpans(text);
    },
  });
  return createTracer({
    clock,
    exporter,
    sampleRatio,
    extraTracesPerSecond,
  });
}

function parseRejectedSpans(text: string): number {
  try {
    return exportResponse.safeParse(JSON.parse(text)).data?.partialSuccess.rejectedSpans ?? 0;
  } catch {
    return 0; // Some collectors respond with another body, although they accepted the spans.
  }
}
