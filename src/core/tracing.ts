// The tracing port: what is done for a request, as a tree of spans with W3C Trace Context. Driver: src/telemetry/tracer.ts.
//
// A span holds what is said here and nothing else: no input, credential, header value or query string ever becomes a fact.

import { parseTraceContext, formatTraceHeaders } from "./trace-context.ts";

export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface SpanOptions {
  /** A request to another service; `internal` else. */
  readonly kind?: "client" | "internal";
  /** By the tracer's clock; now if left out. */
  readonly startMs?: number;
  /** Spans of other trees that it belongs to as well. */
  readonly links?: readonly Span[];
}

export interface Span {
  /** 32 hexadecimal digits; undefined where nothing is traced and no context came. */
  readonly traceId: string | undefined;
  /** Whether anything that is told to it is kept, at least until its request is over. */
  readonly isRecording: boolean;
  /** 16 hexadecimal digits; "" of a span that is not recorded. */
  readonly id: string;
  /** Whether the whole trace is to be recorded, here and further on. */
  readonly isSampled: boolean;
  /** What requests on its behalf carry: `traceparent`, and the client's `tracestate`. */
  readonly headers: Readonly<Record<string, string>>;
  startChild(name: string, facts?: SpanAttributes, options?: SpanOptions): Span;
  setAttributes(facts: SpanAttributes): void;
  /** Its tree is worth recording, whatever was sampled. */
  forceRecording(): void;
  /** Does nothing the second time. @param error code of the error that it ended with */
  end(error?: string, endMs?: number): void;
}

export type WaitUntil = (work: Promise<unknown>) => void;

export interface RequestTrace {
  readonly span: Span;
  /** Nothing of it is recorded without `end`. What of its tree ends later follows. */
  finish(
    waitUntil: WaitUntil,
    end?: {
      readonly name: string;
      readonly attributes: SpanAttributes;
      /** Of a failure that is ours. */ readonly error?: string | undefined;
    },
  ): void;
}

export interface Tracer {
  /** @param header the request's header of this name */
  startRequest(header: (name: string) => string | undefined): RequestTrace;
  /** Work that several requests shared, over now: a tree of its own, recorded where one of them is sampled. */
  recordLinkedSpan(
    name: string,
    facts: SpanAttributes,
    times: { readonly startMs: number; readonly endMs: number },
    requests: readonly Span[],
    error?: string,
  ): Span;
  /** Sends what waits. Never rejects. */
  flush(): Promise<void>;
}

/** Records nothing, and hands a context on as it came. */
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

/** Where nothing is traced. */
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
