// The tracing port: what is done for a request, as a tree of spans with W3C Trace Context. Driver: src/telemetry/tracer.ts.
//
// A span holds what is said here and nothing else: no input, credential, header value or query string ever becomes a fact.

import { readTraceContext, traceHeaders } from "./trace-context.ts";

export type Facts = Readonly<Record<string, string | number | boolean>>;

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
  readonly isRecorded: boolean;
  /** 16 hexadecimal digits; "" of a span that is not recorded. */
  readonly id: string;
  /** Whether the whole trace is to be recorded, here and further on. */
  readonly isSampled: boolean;
  /** What requests on its behalf carry: `traceparent`, and the client's `tracestate`. */
  readonly headers: Readonly<Record<string, string>>;
  child(name: string, facts?: Facts, options?: SpanOptions): Span;
  set(facts: Facts): void;
  /** Its tree is worth recording, whatever was sampled. */
  keep(): void;
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
      readonly facts: Facts;
      /** Of a failure that is ours. */ readonly error?: string | undefined;
    },
  ): void;
}

export interface Tracer {
  /** @param header the request's header of this name */
  startRequest(header: (name: string) => string | undefined): RequestTrace;
  /** Work that several requests shared, over now: a tree of its own, recorded where one of them is sampled. */
  recordShared(
    name: string,
    facts: Facts,
    times: { readonly startMs: number; readonly endMs: number },
    requests: readonly Span[],
    error?: string,
  ): Span;
  /** Sends what waits. Never rejects. */
  flush(): Promise<void>;
}

/** Records nothing, and hands a context on as it came. */
export function passedOn(headers: Span["headers"] = {}, traceId?: string): Span {
  const span: Span = {
    traceId,
    isRecorded: false,
    id: "",
    isSampled: false,
    headers,
    child: () => span,
    set() {},
    keep() {},
    end() {},
  };
  return span;
}

export const UNTRACED = passedOn();

/** Where nothing is traced. */
export const passingTracer: Tracer = {
  startRequest(header) {
    const context = readTraceContext(header);
    return {
      span: context === undefined ? UNTRACED : passedOn(traceHeaders(context), context.traceId),
      finish() {},
    };
  },
  recordShared: () => UNTRACED,
  flush: async () => {},
};
