// Tracing port: records the work of a request as a tree of spans with W3C Trace Context. Driver: src/telemetry/tracer.ts.
//
// Span attributes never contain inputs, credentials, header values or query strings.

import { parseTraceContext, formatTraceHeaders } from "./trace-context.ts";

export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface SpanOptions {
  /** `client` for a request to another service; defaults to `internal`. */
  readonly kind?: "client" | "internal";
  /** Start time by the tracer's clock; defaults to now. */
  readonly startMs?: number;
  /** Spans of other trees that this span also belongs to. */
  readonly links?: readonly Span[];
}

export interface Span {
  /** 32 hexadecimal digits; undefined if tracing is off and the request had no trace context. */
  readonly traceId: string | undefined;
  /** Whether the span keeps its attributes, at least until its request ends. */
  readonly isRecording: boolean;
  /** 16 hexadecimal digits; "" for a span that is not recorded. */
  readonly id: string;
  /** Whether the whole trace is recorded, here and in called services. */
  readonly isSampled: boolean;
  /** Headers for outgoing requests: `traceparent`, and the client's `tracestate`. */
  readonly headers: Readonly<Record<string, string>>;
  startChild(name: string, attributes?: SpanAttributes, options?: SpanOptions): Span;
  setAttributes(attributes: SpanAttributes): void;
  /** Records the span's tree regardless of the sampling decision. */
  forceRecording(): void;
  /** Ends the span; later calls have no effect. @param error code of the error that ended the span */
  end(error?: string, endMs?: number): void;
}

export type WaitUntil = (work: Promise<unknown>) => void;

/** Final attributes of a request's root span. */
export interface RequestTraceEnd {
  readonly name: string;
  readonly attributes: SpanAttributes;
  /** Error code, only for server-side failures. */
  readonly error?: string | undefined;
}

export interface RequestTrace {
  readonly span: Span;
  /** Records the trace, unless `end` is absent. Spans that end later are sent afterwards. */
  finish(waitUntil: WaitUntil, end?: RequestTraceEnd): void;
}

export interface Tracer {
  /** @param header reads a request header by name */
  startRequest(header: (name: string) => string | undefined): RequestTrace;
  /** Records finished work that several requests shared, as its own tree, if at least one of them is sampled. */
  recordLinkedSpan(
    name: string,
    attributes: SpanAttributes,
    times: { readonly startMs: number; readonly endMs: number },
    requests: readonly Span[],
    error?: string,
  ): Span;
  /** Sends the spans in the queue. Never rejects. */
  flush(): Promise<void>;
}

/** Creates a span that records nothing and forwards the trace context unchanged. */
export function createNonRecordingSpan(headers: Span["headers"] = {}, traceId?: string): Span {
  const span: Span = {
    traceId,
    isRecording: false,
    id: "",
    isSampled: false,
    headers,
    startChild: () => span,
    setAttributes() {},
    forceRecording() {},
    end() {},
  };
  return span;
}

export const NON_RECORDING_SPAN = createNonRecordingSpan();

/** Tracer for disabled tracing: forwards the trace context of each request. */
export const passthroughTracer: Tracer = {
  startRequest(header) {
    const context = parseTraceContext(header);
    return {
      span:
        context === undefined
          ? NON_RECORDING_SPAN
          : createNonRecordingSpan(formatTraceHeaders(context), context.traceId),
      finish() {},
    };
  },
  recordLinkedSpan: () => NON_RECORDING_SPAN,
  flush: async () => {},
};
