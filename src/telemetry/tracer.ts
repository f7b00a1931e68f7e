// Tracer: records the spans of one process, with one tree for each request. Span ids are generated only if they are needed.
//
// A trace that starts here is sampled by its id. A client's trace context is honored, so that traces are complete or
// absent. Clients must not make tracing expensive, so the rate of traces that they request is limited. Failed traces and
// traces with forced recording are also recorded, with a rate limit of their own and without the spans of other services.

import type { Clock } from "../core/clock.ts";
import { parseTraceContext, type TraceContext, formatTraceHeaders } from "../core/trace-context.ts";
import type {
  SpanAttributes,
  RequestTrace,
  Span,
  SpanOptions,
  Tracer,
  WaitUntil,
} from "../core/tracing.ts";
import type { EndedSpan } from "./otlp.ts";
import type { SpanExporter } from "./span-exporter.ts";

export interface TracerOptions {
  readonly clock: Clock;
  readonly exporter: SpanExporter;
  /** Sampling ratio of traces that start here, from 0 to 1. */
  readonly sampleRatio: number;
  /** Rate limit of traces that clients request, and the same again of traces with forced recording. */
  readonly extraTracesPerSecond: number;
}

/** Spans of a request beyond this number are dropped. */
const MAX_SPANS_PER_TRACE = 256;

export function createTracer({
  clock,
  exporter,
  sampleRatio,
  extraTracesPerSecond,
}: TracerOptions): Tracer {
  const takeRequestedToken = createTokenBucket(clock, extraTracesPerSecond);
  const takeForcedToken = createTokenBucket(clock, extraTracesPerSecond);
  const startTrace = (parent: TraceContext | undefined, decide: SamplingDecision) =>
    createTrace({ clock, exporter, takeForcedToken, parent, decide });

  return {
    startRequest(header): RequestTrace {
      const parent = parseTraceContext(header);
      const { trace, close } = startTrace(parent, (traceId) =>
        parent === undefined
          ? sampleRatioOf(traceId) < sampleRatio
          : parent.isSampled && takeRequestedToken(),
      );
      const root = new RecordedSpan(trace, {
        name: "",
        kind: "server",
        parent: parent && { id: parent.parentId },
      });
      return {
        span: root,
        finish(waitUntil, end) {
          if (end !== undefined) {
            root.name = end.name;
            root.setAttributes(end.attributes);
            if (end.error !== undefined) root.forceRecording();
          }
          root.end(end?.error);
          close(waitUntil, end !== undefined);
        },
      };
    },

    recordLinkedSpan(name, attributes, { startMs, endMs }, requests, error) {
      const { trace, close } = startTrace(undefined, () =>
        requests.some(({ isSampled }) => isSampled),
      );
      const span = new RecordedSpan(trace, {
        name,
        kind: "internal",
        attributes,
        startMs,
        links: requests,
      });
      span.end(error, endMs);
      close(() => {}, true);
      return span;
    },

    flush: exporter.flush,
  };
}

type SamplingDecision = (traceId: string) => boolean;

interface TraceOptions {
  readonly clock: Clock;
  readonly exporter: SpanExporter;
  /** Consumes one token of the limit on forced recordings. */
  readonly takeForcedToken: () => boolean;
  readonly parent: TraceContext | undefined;
  readonly decide: SamplingDecision;
}

function createTrace({ clock, exporter, takeForcedToken, parent, decide }: TraceOptions) {
  const traceId = parent?.traceId ?? newTraceId();
  const isSampled = decide(traceId);
  const endedSpans: (() => EndedSpan)[] = [];
  let isForced = false;
  /** Set at the end of the request, for spans that end later. */
  let onLateSpan: ((span: EndedSpan) => void) | undefined;

  const trace: Trace = {
    clock,
    traceId,
    isSampled,
    traceState: parent?.traceState,
    forceRecording() {
      isForced = true;
    },
    add(span) {
      if (onLateSpan !== undefined) onLateSpan(span());
      else if (endedSpans.length < MAX_SPANS_PER_TRACE) endedSpans.push(span);
    },
  };
  return {
    trace,
    close(waitUntil: WaitUntil, isWanted: boolean) {
      const isRecorded = isWanted && (isSampled || (isForced && takeForcedToken()));
      onLateSpan = isRecorded ? (span) => exporter.add([span], waitUntil) : () => {};
      if (isRecorded)
        exporter.add(
          endedSpans.map((span) => span()),
          waitUntil,
        );
    },
  };
}

interface Trace {
  readonly clock: Clock;
  readonly traceId: string;
  readonly isSampled: boolean;
  readonly traceState: string | undefined;
  forceRecording(): void;
  add(span: () => EndedSpan): void;
}

interface SpanInit extends Omit<SpanOptions, "kind"> {
  readonly name: string;
  readonly kind: EndedSpan["kind"];
  readonly attributes?: SpanAttributes;
  /** An object, because its id is generated on the first read. */
  readonly parent?: { readonly id: string } | undefined;
}

/** A class, because V8 creates object literals with accessors ten times slower. */
class RecordedSpan implements Span {
  readonly isRecording = true;
  name: string;
  readonly #trace: Trace;
  readonly #init: SpanInit;
  readonly #startMs: number;
  #attributes: SpanAttributes;
  #id: string | undefined;
  #isEnded = false;

  constructor(trace: Trace, init: SpanInit) {
    this.#trace = trace;
    this.#init = init;
    this.name = init.name;
    this.#attributes = init.attributes ?? {};
    this.#startMs = init.startMs ?? trace.clock.now();
  }

  get traceId(): string {
    return this.#trace.traceId;
  }

  get isSampled(): boolean {
    return this.#trace.isSampled;
  }

  get id(): string {
    return (this.#id ??= newTraceId().slice(16));
  }

  get headers(): Span["headers"] {
    const { traceId, isSampled, traceState } = this.#trace;
    return formatTraceHeaders({ traceId, parentId: this.id, isSampled, traceState });
  }

  startChild(
    name: string,
    attributes: SpanAttributes = {},
    { kind = "internal", ...rest }: SpanOptions = {},
  ): Span {
    return new RecordedSpan(this.#trace, { ...rest, name, kind, attributes, parent: this });
  }

  setAttributes(attributes: SpanAttributes): void {
    this.#attributes = { ...this.#attributes, ...attributes };
  }

  forceRecording(): void {
    this.#trace.forceRecording();
  }

  end(error?: string, endMs = this.#trace.clock.now()): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const { traceId, isSampled, traceState } = this.#trace;
    const { kind, parent, links = [] } = this.#init;
    this.#trace.add(() => ({
      traceId,
      id: this.id,
      parentId: parent?.id,
      traceState,
      isSampled,
      kind,
      name: this.name,
      startMs: this.#startMs,
      endMs,
      attributes: this.#attributes,
      errorCode: error,
      links,
    }));
  }
}

/**
 * UUIDs come from a buffer, ten times faster than random bytes. Their few fixed bits are not in the last 16 digits.
 */
const newTraceId = (): string => crypto.randomUUID().replaceAll("-", "");

/** Number from 0 to 1. The last digits of a trace id are random, regardless of its generator. */
const sampleRatioOf = (traceId: string): number => Number.parseInt(traceId.slice(-8), 16) / 2 ** 32;

/** Token bucket with the capacity of one second. */
function createTokenBucket(clock: Clock, perSecond: number): () => boolean {
  let tokens = perSecond;
  let refilledAtMs = clock.now();
  return () => {
    const nowMs = clock.now();
    tokens = Math.min(
      Math.max(1, perSecond),
      tokens + (Math.max(0, nowMs - refilledAtMs) / 1_000) * perSecond,
    );
    refilledAtMs = nowMs;
    if (tokens < 1) return false;
    tokens--;
    return true;
  };
}
