// The variables of tracing, and the tracer that they ask for: the same at edge and region.

import * as z from "zod";
import type { Clock } from "../core/clock.ts";
import { httpUrlText, integerText } from "../core/config.ts";
import { type SpanAttributes, passthroughTracer, type Tracer } from "../core/tracing.ts";
import { VERSION } from "../core/version.ts";
import { encodeSpans } from "./otlp.ts";
import { createSpanExporter, type SpanDropReason } from "./span-exporter.ts";
import { createTracer } from "./tracer.ts";

/** As OTEL_EXPORTER_OTLP_HEADERS: `name=value,name=value`, values percent-encoded. */
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
      message: "must be name=value pairs with commas between them, their values percent-encoded",
    });
    return z.NEVER;
  }
});

export const traceVariables = {
  /** Of an OTLP/HTTP collector, without `/v1/traces`. Without it nothing is traced, and a client's context goes on as it came. */
  EDGETIER_OTLP_URL: httpUrlText().optional(),
  /** A secret: what the collector wants to be sent along. */
  EDGETIER_OTLP_HEADERS: otlpHeaders.default({}),
  /** Of the requests that come without a trace, from 0 to 1. */
  EDGETIER_TRACE_SHARE: z.coerce.number().min(0).max(1).default(0.01),
  /** Traces a second, in each isolate or region server, that clients may ask for; and as many of those that failed or were degraded. */
  EDGETIER_TRACE_EXTRA_PER_SECOND: integerText(10, 0, 100_000),
};

type TraceVariables = z.output<z.ZodObject<typeof traceVariables>>;

export interface ConfiguredTracerOptions {
  /** `service.name` and what else tells who this is. */
  readonly resource: SpanAttributes;
  readonly clock: Clock;
  /** Spans that no collector gets. */
  readonly onSpansDropped: (reason: SpanDropReason, spans: number) => void;
  readonly log: (record: Readonly<Record<string, unknown>>) => void;
}

const SEND_TIMEOUT_MS = 5_000;
const LOG_INTERVAL_MS = 60_000;
const exportResponse = z.object({ partialSuccess: z.object({ rejectedSpans: z.coerce.number() }) });

export function createConfiguredTracer(
  config: TraceVariables,
  { resource, clock, onSpansDropped: countDropped, log }: ConfiguredTracerOptions,
): Tracer {
  const {
    EDGETIER_OTLP_URL: url,
    EDGETIER_OTLP_HEADERS: sentAlong,
    EDGETIER_TRACE_SHARE: share,
    EDGETIER_TRACE_EXTRA_PER_SECOND: extraPerSecond,
  } = config;
  if (url === undefined) return passthroughTracer;
  const whole = { "service.version": VERSION, ...resource };
  let loggedAtMs = -Infinity;
  const exporter = createSpanExporter({
    clock,
    onDropped(reason, spans, cause) {
      countDropped(reason, spans);
      if (clock.now() - loggedAtMs < LOG_INTERVAL_MS) return;
      loggedAtMs = clock.now();
      log({ level: "warn", event: "spans_dropped", reason, spans, cause });
    },
    async send(spans) {
      const response = await fetch(`${url}/v1/traces`, {
        method: "POST",
        headers: { ...sentAlong, "content-type": "application/json" },
        body: encodeSpans(whole, spans),
        signal: AbortSignal.timeout(SEND_TIMEOUT_MS),
        redirect: "manual",
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`the collector answered with status ${response.status}`);
      return parseRejectedSpans(text);
    },
  });
  return createTracer({
    clock,
    exporter,
    sampleRatio: share,
    extraTracesPerSecond: extraPerSecond,
  });
}

function parseRejectedSpans(text: string): number {
  try {
    return exportResponse.safeParse(JSON.parse(text)).data?.partialSuccess.rejectedSpans ?? 0;
  } catch {
    return 0; // an answer of its own kind, and yet a good one
  }
}
