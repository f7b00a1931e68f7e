// OTLP encoder: spans as OTLP/HTTP JSON (ExportTraceServiceRequest of opentelemetry-proto). Ids are hexadecimal, 64-bit
// integers are strings, and enumerations are numbers. OpenTelemetry's SDK and transformer would add 44 kB to the Worker.

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
  /** Code of the error that ended the span. */
  readonly errorCode: string | undefined;
  readonly links: readonly { readonly traceId: string | undefined; readonly id: string }[];
}

const KINDS = { internal: 1, server: 2, client: 3 } as const;
const STATUS_ERROR = 2;

/** @param resource attributes of the sending service, such as `service.name` */
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
  traceState,
  isSampled,
  kind,
  name,
  startMs,
  endMs,
  attributes,
  errorCode,
  links,
}: EndedSpan): object {
  return {
    traceId,
    spanId: id,
    traceState, // JSON.stringify omits undefined fields.
    parentSpanId: parentId,
    flags: isSampled ? 1 : 0,
    name,
    kind: KINDS[kind],
    startTimeUnixNano: toUnixNanos(startMs),
    // The clock may have been set back in between.
    endTimeUnixNano: toUnixNanos(Math.max(startMs, endMs)),
    attributes: encodeAttributes(
      errorCode === undefined ? attributes : { ...attributes, "error.type": errorCode },
    ),
    links: links.map((link) => ({ traceId: link.traceId, spanId: link.id })),
    status: errorCode === undefined ? {} : { code: STATUS_ERROR, message: errorCode },
  };
}

/** A double represents the microseconds since 1970 exactly, but not the nanoseconds. */
const toUnixNanos = (ms: number): string => `${Math.round(ms * 1_000)}000`;

const encodeAttributes = (attributes: SpanAttributes): object[] =>
  Object.entries(attributes).map(([key, value]) => ({ key, value: encodeAttributeValue(value) }));

function encodeAttributeValue(value: SpanAttributes[string]): object {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
