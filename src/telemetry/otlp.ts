// Spans as OTLP/HTTP takes them in JSON (opentelemetry-proto's ExportTraceServiceRequest): ids in hexadecimal digits, 64-bit
// integers as text, enumerations as numbers. OpenTelemetry's own SDK and transformer would add 44 kB to the Worker.

import type { SpanAttributes } from "../core/tracing.ts";
import { VERSION } from "../core/version.ts";

export interface EndedSpan {
  readonly traceId: string;
  readonly id: string;
  readonly parentId: string | undefined;
  readonly traceState: string | undefined;
  readonly isSampled: boolean;
  readonly kind: "internal" | "server" | "client";
  readonly name: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: SpanAttributes;
  /** Code of what it failed with. */
  readonly errorCode: string | undefined;
  readonly links: readonly { readonly traceId: string | undefined; readonly id: string }[];
}

const KINDS = { internal: 1, server: 2, client: 3 } as const;
const STATUS_ERROR = 2;

/** @param resource who made the spans: `service.name` and so on */
export function encodeSpans(resource: SpanAttributes, spans: readonly EndedSpan[]): string {
  const scopeSpans = [
    { scope: { name: "edgetier", version: VERSION }, spans: spans.map(encodeSpan) },
  ];
  return JSON.stringify({
    resourceSpans: [{ resource: { attributes: encodeAttributes(resource) }, scopeSpans }],
  });
}

function encodeSpan({
  traceId,
  id,
  parentId,
  traceState: state,
  isSampled,
  kind,
  name,
  startMs,
  endMs,
  attributes: facts,
  errorCode: error,
  links,
}: EndedSpan): object {
  return {
    traceId,
    spanId: id,
    traceState: state, // what is undefined is left out
    parentSpanId: parentId,
    flags: isSampled ? 1 : 0,
    name,
    kind: KINDS[kind],
    startTimeUnixNano: toUnixNanos(startMs),
    endTimeUnixNano: toUnixNanos(Math.max(startMs, endMs)), // a clock may be set back
    attributes: encodeAttributes(error === undefined ? facts : { ...facts, "error.type": error }),
    links: links.map((link) => ({ traceId: link.traceId, spanId: link.id })),
    status: error === undefined ? {} : { code: STATUS_ERROR, message: error },
  };
}

/** A double holds the microseconds since 1970, and not the nanoseconds. */
const toUnixNanos = (ms: number): string => `${Math.round(ms * 1_000)}000`;

const encodeAttributes = (facts: SpanAttributes): object[] =>
  Object.entries(facts).map(([key, value]) => ({ key, value: encodeAttributeValue(value) }));

function encodeAttributeValue(value: SpanAttributes[string]): object {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
