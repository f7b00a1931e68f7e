// The tracer: spans of one process, each request's a tree, with ids that are drawn only where somebody asks for them.
//
// A trace that begins here is sampled by its id. A context that comes along is followed, so that a trace is whole or is not there;
// but clients must not make it dear, so only so many a second of those that ask for it. What failed, and what somebody has called worth
// keeping, is recorded all the same, within a rate of its own: without what others would have added.

import type { Clock } from "../core/clock.ts";
import { toHex } from "../core/hash.ts";
import type { Facts, RequestTrace, Span, SpanOptions, Tracer, WaitUntil } from "../core/span.ts";
import { readTraceContext, type TraceContext, traceHeaders } from "../core/trace-context.ts";
import type { EndedSpan } from "./otlp.ts";
import type { SpanExporter } from "./span-exporter.ts";

export interface TracerOptions {
  readonly clock: Clock;
  readonly exporter: SpanExporter;
  /** Of the traces that begin here, from 0 to 1. */
  readonly share: number;
  /** Traces a second beyond that: of those that a client asks for, and again of those worth keeping. */
  readonly extraPerSecond: number;
}

/** Of one request: what comes after is lost with its details. */
const MAX_SPANS = 256;
const TRACE_ID_BYTES = 16;
const SPAN_ID_BYTES = 8;

export function createTracer({ clock, exporter, share, extraPerSecond }: TracerOptions): Tracer {
  const asked = createRate(clock, extraPerSecond);
  const worthKeeping = createRate(clock, extraPerSecond);

  function startTrace(parent: TraceContext | undefined, decide: (traceId: string) => boolean) {
    const traceId = parent?.traceId ?? randomHex(TRACE_ID_BYTES);
    const isSampled = decide(traceId);
    const ended: (() => EndedSpan)[] = [];
    let isWorth = false;
    /** Set when the request is over: what becomes of what ends now. */
    let onLate: ((span: EndedSpan) => void) | undefined;

    const trace: Trace = {
      clock,
      traceId,
      isSampled,
      state: parent?.state,
      keep() {
        isWorth = true;
      },
      add(span) {
        if (onLate !== undefined) onLate(span());
        else if (ended.length < MAX_SPANS) ended.push(span);
      },
    };
    return {
      trace,
      close(waitUntil: WaitUntil, isWanted: boolean) {
        const isKept = isWanted && (isSampled || (isWorth && worthKeeping()));
        onLate = isKept ? (span) => exporter.add([span], waitUntil) : () => {};
        if (isKept) exporter.add(ended.map((span) => span()), waitUntil);
      },
    };
  }

  return {
    startRequest(header): RequestTrace {
      const parent = readTraceContext(header);
      const { trace, close } = startTrace(parent, (traceId) => (parent === undefined ? placeOf(traceId) < share : parent.isSampled && asked()));
      const root = createSpan(trace, { name: "", kind: "server", parentId: () => parent?.parentId });
      return {
        span: root,
        finish(waitUntil, end) {
          if (end !== undefined) {
            root.name = end.name;
            root.set(end.facts);
            if (end.error !== undefined) root.keep();
          }
          root.end(end?.error);
          close(waitUntil, end !== undefined);
        },
      };
    },

    recordShared(name, facts, { startMs, endMs }, requests, error) {
      const { trace, close } = startTrace(undefined, () => requests.some(({ isSampled }) => isSampled));
      const span = createSpan(trace, { name, kind: "internal", facts, startMs, links: requests });
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
  readonly state: string | undefined;
  keep(): void;
  add(span: () => EndedSpan): void;
}

interface NewSpan extends Omit<SpanOptions, "kind"> {
  readonly name: string;
  readonly kind: EndedSpan["kind"];
  readonly facts?: Facts;
  readonly parentId?: () => string | undefined;
}

function createSpan(trace: Trace, { name, kind, parentId, links = [], ...options }: NewSpan): Span & { name: string } {
  const { clock, traceId, isSampled, state } = trace;
  const { startMs = clock.now() } = options;
  let facts = options.facts ?? {};
  let id: string | undefined;
  let isEnded = false;
  const span = {
    name,
    traceId,
    isRecorded: true,
    isSampled,
    get id() {
      return (id ??= randomHex(SPAN_ID_BYTES));
    },
    get headers() {
      return traceHeaders({ traceId, parentId: span.id, isSampled, state });
    },
    child: (childName: string, childFacts: Facts = {}, { kind: childKind = "internal", ...rest }: SpanOptions = {}): Span =>
      createSpan(trace, { ...rest, name: childName, kind: childKind, facts: childFacts, parentId: () => span.id }),
    set(more: Facts) {
      facts = { ...facts, ...more };
    },
    keep: trace.keep,
    end(error?: string, endMs = clock.now()) {
      if (isEnded) return;
      isEnded = true;
      trace.add(() => ({ traceId, id: span.id, parentId: parentId?.(), state, isSampled, kind, name: span.name, startMs, endMs, facts, error, links }));
    },
  };
  return span;
}

const randomHex = (bytes: number): string => toHex(crypto.getRandomValues(new Uint8Array(bytes)));

/** From 0 to 1: its last digits are random, whoever has drawn it. */
const placeOf = (traceId: string): number => Number.parseInt(traceId.slice(-8), 16) / 2 ** 32;

/** A token bucket of one second's tokens. */
function createRate(clock: Clock, perSecond: number): () => boolean {
  let tokens = perSecond;
  let atMs = clock.now();
  return () => {
    const nowMs = clock.now();
    tokens = Math.min(Math.max(1, perSecond), tokens + (Math.max(0, nowMs - atMs) / 1_000) * perSecond);
    atMs = nowMs;
    if (tokens < 1) return false;
    tokens--;
    return true;
  };
}
