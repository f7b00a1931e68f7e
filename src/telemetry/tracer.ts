// The tracer: spans of one process, each request's a tree, with ids that are drawn only where somebody asks for them.
//
// A trace that begins here is sampled by its id. A context that comes along is followed, so that a trace is whole or is not there;
// but clients must not make it dear, so only so many a second of those that ask for it. What failed, and what somebody has called worth
// keeping, is recorded all the same, within a rate of its own: without what others would have added.

import type { Clock } from "../core/clock.ts";
import type {
  SpanAttributes,
  RequestTrace,
  Span,
  SpanOptions,
  Tracer,
  WaitUntil,
} from "../core/tracing.ts";
import { parseTraceContext, type TraceContext, formatTraceHeaders } from "../core/trace-context.ts";
import type { EndedSpan } from "./otlp.ts";
import type { SpanExporter } from "./span-exporter.ts";

export interface TracerOptions {
  readonly clock: Clock;
  readonly exporter: SpanExporter;
  /** Of the traces that begin here, from 0 to 1. */
  readonly sampleRatio: number;
  /** Traces a second beyond that: of those that a client asks for, and again of those worth keeping. */
  readonly extraTracesPerSecond: number;
}

/** Of one request: what comes after is lost with its details. */
const MAX_SPANS_PER_TRACE = 256;

export function createTracer({
  clock,
  exporter,
  sampleRatio: share,
  extraTracesPerSecond: extraPerSecond,
}: TracerOptions): Tracer {
  const asked = createTokenBucket(clock, extraPerSecond);
  const worthKeeping = createTokenBucket(clock, extraPerSecond);

  function startTrace(parent: TraceContext | undefined, decide: (traceId: string) => boolean) {
    const traceId = parent?.traceId ?? newTraceId();
    const isSampled = decide(traceId);
    const ended: (() => EndedSpan)[] = [];
    let isWorth = false;
    /** Set when the request is over: what becomes of what ends now. */
    let onLate: ((span: EndedSpan) => void) | undefined;

    const trace: Trace = {
      clock,
      traceId,
      isSampled,
      traceState: parent?.traceState,
      keep() {
        isWorth = true;
      },
      add(span) {
        if (onLate !== undefined) onLate(span());
        else if (ended.length < MAX_SPANS_PER_TRACE) ended.push(span);
      },
    };
    return {
      trace,
      close(waitUntil: WaitUntil, isWanted: boolean) {
        const isKept = isWanted && (isSampled || (isWorth && worthKeeping()));
        onLate = isKept ? (span) => exporter.add([span], waitUntil) : () => {};
        if (isKept)
          exporter.add(
            ended.map((span) => span()),
            waitUntil,
          );
      },
    };
  }

  return {
    startRequest(header): RequestTrace {
      const parent = parseTraceContext(header);
      const { trace, close } = startTrace(parent, (traceId) =>
        parent === undefined ? sampleRatioOf(traceId) < share : parent.isSampled && asked(),
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

    recordLinkedSpan(name, facts, { startMs, endMs }, requests, error) {
      const { trace, close } = startTrace(undefined, () =>
        requests.some(({ isSampled }) => isSampled),
      );
      const span = new RecordedSpan(trace, {
        name,
        kind: "internal",
        attributes: facts,
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

interface Trace {
  readonly clock: Clock;
  readonly traceId: string;
  readonly isSampled: boolean;
  readonly traceState: string | undefined;
  keep(): void;
  add(span: () => EndedSpan): void;
}

interface SpanInit extends Omit<SpanOptions, "kind"> {
  readonly name: string;
  readonly kind: EndedSpan["kind"];
  readonly attributes?: SpanAttributes;
  /** Its id is asked for when it is known whether anybody needs it. */
  readonly parent?: { readonly id: string } | undefined;
}

/** A class, since objects with accessors of their own take V8 ten times as long to make. */
class RecordedSpan implements Span {
  readonly isRecording = true;
  name: string;
  readonly #trace: Trace;
  readonly #made: SpanInit;
  readonly #startMs: number;
  #facts: SpanAttributes;
  #id: string | undefined;
  #isEnded = false;

  constructor(trace: Trace, made: SpanInit) {
    this.#trace = trace;
    this.#made = made;
    this.name = made.name;
    this.#facts = made.attributes ?? {};
    this.#startMs = made.startMs ?? trace.clock.now();
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
    const { traceId, isSampled, traceState: state } = this.#trace;
    return formatTraceHeaders({ traceId, parentId: this.id, isSampled, traceState: state });
  }

  startChild(
    name: string,
    facts: SpanAttributes = {},
    { kind = "internal", ...rest }: SpanOptions = {},
  ): Span {
    return new RecordedSpan(this.#trace, { ...rest, name, kind, attributes: facts, parent: this });
  }

  setAttributes(facts: SpanAttributes): void {
    this.#facts = { ...this.#facts, ...facts };
  }

  forceRecording(): void {
    this.#trace.keep();
  }

  end(error?: string, endMs = this.#trace.clock.now()): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const { traceId, isSampled, traceState: state } = this.#trace;
    const { kind, parent, links = [] } = this.#made;
    this.#trace.add(() => ({
      traceId,
      id: this.id,
      parentId: parent?.id,
      traceState: state,
      isSampled,
      kind,
      name: this.name,
      startMs: this.#startMs,
      endMs,
      attributes: this.#facts,
      errorCode: error,
      links,
    }));
  }
}

/** A UUID is drawn from a buffer, ten times as quick as random bytes are; its few fixed bits are not the last ones. */
const newTraceId = (): string => crypto.randomUUID().replaceAll("-", "");

/** From 0 to 1: its last digits are random, whoever has drawn it. */
const sampleRatioOf = (traceId: string): number => Number.parseInt(traceId.slice(-8), 16) / 2 ** 32;

/** A token bucket of one second's tokens. */
function createTokenBucket(clock: Clock, perSecond: number): () => boolean {
  let tokens = perSecond;
  let atMs = clock.now();
  return () => {
    const nowMs = clock.now();
    tokens = Math.min(
      Math.max(1, perSecond),
      tokens + (Math.max(0, nowMs - atMs) / 1_000) * perSecond,
    );
    atMs = nowMs;
    if (tokens < 1) return false;
    tokens--;
    return true;
  };
}
