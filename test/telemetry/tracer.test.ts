// Tracer: sampling, trace context, export and dropped spans.
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { passthroughTracer, type Tracer } from "../../src/core/tracing.ts";
import type { EndedSpan } from "../../src/telemetry/otlp.ts";
import { createSpanExporter, type SpanDropReason } from "../../src/telemetry/span-exporter.ts";
import { createTracer } from "../../src/telemetry/tracer.ts";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const PARENT_ID = "b7ad6b7169203331";
const traceContextHeaders = (flags: string, tracestate?: string) => (name: string) =>
  ({ traceparent: `00-${TRACE_ID}-${PARENT_ID}-${flags}`, tracestate })[name];
const noHeaders = () => undefined;
const REQUEST_END = { name: "POST /", attributes: {} };

let clock: ManualClock;
let exports: EndedSpan[][];
let dropped: { readonly reason: SpanDropReason; readonly spans: number }[];
let background: Promise<unknown>[];
let send: (spans: readonly EndedSpan[]) => Promise<number>;
const waitUntil = (work: Promise<unknown>) => void background.push(work);
beforeEach(() => {
  clock = new ManualClock(1_000_000);
  [exports, dropped, background] = [[], [], []];
  send = async (spans) => {
    exports.push([...spans]);
    return 0;
  };
});

function createTestTracer({ sampleRatio = 1, extraTracesPerSecond = 2 } = {}): Tracer {
  const exporter = createSpanExporter({
    send: (spans) => send(spans),
    clock,
    onDropped: (reason, spans) => dropped.push({ reason, spans }),
  });
  return createTracer({
    clock,
    exporter,
    sampleRatio,
    extraTracesPerSecond,
  });
}

/** Returns the exported spans after the export delay. */
async function collectExportedSpans(): Promise<EndedSpan[]> {
  clock.advance(1_000);
  await Promise.all(background.splice(0));
  return exports.splice(0).flat();
}

describe("a request's trace", () => {
  it("continues the client's trace", () => {
    const { span } = createTestTracer().startRequest(traceContextHeaders("01", "vendor=1"));
    expect(span).toMatchObject({
      traceId: TRACE_ID,
      isSampled: true,
      isRecording: true,
      headers: { traceparent: `00-${TRACE_ID}-${span.id}-01`, tracestate: "vendor=1" },
    });
  });

  it("is one tree, including spans that end after the request", async () => {
    const { span, finish } = createTestTracer().startRequest(traceContextHeaders("01", "vendor=1"));
    const tier = span.startChild("tier", { "edgetier.tier": "heavy" });
    const call = tier.startChild("region call", {}, { kind: "client" });
    const late = tier.startChild("region call", {}, { kind: "client" });
    clock.advance(20);
    call.end("timed_out");
    call.end();
    tier.end();
    finish(waitUntil, { name: "POST /v1", attributes: { "http.response.status_code": 200 } });
    clock.advance(5);
    late.end();
    const spans = await collectExportedSpans();
    const trace = { traceId: TRACE_ID, traceState: "vendor=1", isSampled: true };
    expect(spans).toMatchObject([
      {
        ...trace,
        name: "region call",
        parentId: tier.id,
        endMs: 1_000_020,
        errorCode: "timed_out",
      },
      { ...trace, name: "tier", parentId: span.id, endMs: 1_000_020, errorCode: undefined },
      {
        ...trace,
        name: "POST /v1",
        kind: "server",
        id: span.id,
        parentId: PARENT_ID,
        startMs: 1_000_000,
        endMs: 1_000_020,
        errorCode: undefined,
        attributes: { "http.response.status_code": 200 },
      },
      { ...trace, name: "region call", parentId: tier.id, endMs: 1_000_025, errorCode: undefined },
    ]);
    expect(new Set(spans.map(({ id }) => id))).toHaveProperty("size", 4);
  });
});

describe("a new trace", () => {
  it.each([
    undefined,
    "",
    "00-0-0-00",
    `00-${"0".repeat(32)}-${PARENT_ID}-01`,
    `00-${TRACE_ID}-${"0".repeat(16)}-01`,
    `ff-${TRACE_ID}-${PARENT_ID}-01`,
    `00-${TRACE_ID.toUpperCase()}-${PARENT_ID}-01`,
    `00-${TRACE_ID}-${PARENT_ID}-01-more`,
  ])("starts if the request has no valid context: %s", (traceparent) => {
    const { span } = createTestTracer().startRequest(
      (name) => ({ traceparent, tracestate: "vendor=1" })[name],
    );
    expect(span.traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(span.traceId).not.toBe(TRACE_ID);
    expect(span.headers).toEqual({ traceparent: `00-${span.traceId}-${span.id}-01` });
  });

  it("is discarded without an end, together with later spans", async () => {
    const { span, finish } = createTestTracer().startRequest(noHeaders);
    const child = span.startChild("phase");
    finish(waitUntil);
    child.end();
    expect(await collectExportedSpans()).toEqual([]);
  });
});

describe("sampling", () => {
  const countSampled = (
    tracer: Tracer,
    header: (name: string) => string | undefined,
    requests: number,
  ) =>
    Array.from({ length: requests }, () => tracer.startRequest(header).span.isSampled).filter(
      Boolean,
    ).length;

  it("selects a ratio of the traces that start here", () => {
    expect(countSampled(createTestTracer({ sampleRatio: 0 }), noHeaders, 100)).toBe(0);
    expect(countSampled(createTestTracer({ sampleRatio: 1 }), noHeaders, 100)).toBe(100);
    const half = countSampled(createTestTracer({ sampleRatio: 0.5 }), noHeaders, 2_000);
    // The bounds are 6.7 standard deviations from the mean.
    expect(half).toBeGreaterThan(850);
    expect(half).toBeLessThan(1_150);
  });

  it("honors a client's decision within the rate limit", () => {
    const tracer = createTestTracer({ sampleRatio: 1, extraTracesPerSecond: 3 });
    expect(countSampled(tracer, traceContextHeaders("00"), 10)).toBe(0);
    expect(countSampled(tracer, traceContextHeaders("01"), 10)).toBe(3);
    clock.advance(500);
    expect(countSampled(tracer, traceContextHeaders("01"), 10)).toBe(1);
    clock.advance(60_000);
    expect(countSampled(tracer, traceContextHeaders("03"), 10)).toBe(3);
    expect(
      countSampled(createTestTracer({ extraTracesPerSecond: 0 }), traceContextHeaders("01"), 10),
    ).toBe(0);
  });

  it("records failed and forced traces within their own rate limit, without forwarding the decision", async () => {
    const tracer = createTestTracer({ sampleRatio: 0, extraTracesPerSecond: 2 });
    for (const { error, isForced } of [
      { error: "session_failed", isForced: false },
      { error: undefined, isForced: false },
      { error: undefined, isForced: true },
      { error: "session_failed", isForced: false },
    ]) {
      const { span, finish } = tracer.startRequest(noHeaders);
      expect(span.headers["traceparent"]).toMatch(/-00$/);
      if (isForced) span.startChild("tier").forceRecording();
      finish(waitUntil, { ...REQUEST_END, error });
    }
    const summaries = (await collectExportedSpans()).map(({ name, errorCode, isSampled }) => ({
      name,
      errorCode,
      isSampled,
    }));
    expect(summaries).toEqual([
      { name: REQUEST_END.name, errorCode: "session_failed", isSampled: false },
      { name: REQUEST_END.name, errorCode: undefined, isSampled: false },
    ]);
  });
});

describe("a linked span", () => {
  it("is a separate tree with links to its requests, if one of them is sampled", async () => {
    const tracer = createTestTracer({ sampleRatio: 0 });
    const [first, second, unsampled] = [
      tracer.startRequest(traceContextHeaders("01")),
      tracer.startRequest(traceContextHeaders("01")),
      tracer.startRequest(noHeaders),
    ];
    const batch = tracer.recordLinkedSpan("batch", { rows: 3 }, { startMs: 5, endMs: 9 }, [
      first.span,
      second.span,
    ]);
    tracer.recordLinkedSpan("batch", { rows: 1 }, { startMs: 5, endMs: 9 }, [unsampled.span]);
    await tracer.flush();
    expect(exports.flat()).toMatchObject([
      {
        name: "batch",
        id: batch.id,
        parentId: undefined,
        startMs: 5,
        endMs: 9,
        attributes: { rows: 3 },
      },
    ]);
    expect(exports.flat()[0]?.links).toMatchObject([
      { traceId: TRACE_ID, id: first.span.id },
      { traceId: TRACE_ID, id: second.span.id },
    ]);
    expect(batch.traceId).not.toBe(TRACE_ID);
  });
});

const recordTrace = (tracer: Tracer) =>
  tracer.startRequest(noHeaders).finish(waitUntil, REQUEST_END);

describe("the export", () => {
  it("collects a second's spans in one message, in the background of one request", async () => {
    const tracer = createTestTracer();
    for (let i = 0; i < 10; i++) recordTrace(tracer);
    expect(background).toHaveLength(1);
    expect(exports).toEqual([]);
    expect(await collectExportedSpans()).toHaveLength(10);
    recordTrace(tracer);
    expect(await collectExportedSpans()).toHaveLength(1);
  });

  it("is taken over by another request if the platform terminated the first", async () => {
    const tracer = createTestTracer();
    const terminated: Promise<unknown>[] = [];
    const { setTimer } = clock;
    clock.setTimer = () => () => {}; // The terminated request's timer never fires.
    tracer.startRequest(noHeaders).finish((work) => void terminated.push(work), REQUEST_END);
    clock.setTimer = setTimer;
    clock.advance(2_500);
    recordTrace(tracer);
    expect(await collectExportedSpans()).toHaveLength(2);
  });
});

describe("the export to a failing collector", () => {
  it("drops and counts spans beyond the queue", async () => {
    send = () => new Promise(() => {});
    const tracer = createTestTracer();
    for (let i = 0; i < 4_000; i++) recordTrace(tracer);
    expect(
      dropped.reduce((sum, { reason, spans }) => sum + (reason === "full" ? spans : 0), 0),
    ).toBe(4_000 - 2_048 - 2 * 512);
  });

  it("drops and counts rejected spans, and sends later ones", async () => {
    const tracer = createTestTracer();
    const workingSend = send;
    send = () => Promise.reject(new TypeError("connection refused"));
    recordTrace(tracer);
    expect(await collectExportedSpans()).toEqual([]);
    send = async (spans) => (await workingSend(spans)) + 1;
    recordTrace(tracer);
    recordTrace(tracer);
    expect(await collectExportedSpans()).toHaveLength(2);
    expect(dropped).toEqual([
      { reason: "unsent", spans: 1 },
      { reason: "unsent", spans: 1 },
    ]);
  });

  it("continues after two messages that hang", async () => {
    const workingSend = send;
    send = () => new Promise(() => {});
    const tracer = createTestTracer();
    recordTrace(tracer);
    clock.advance(1_000);
    await Promise.resolve();
    recordTrace(tracer);
    clock.advance(1_000);
    await Promise.resolve();
    send = workingSend;
    recordTrace(tracer);
    clock.advance(9_000);
    recordTrace(tracer);
    background.splice(0, 2); // These hang.
    expect((await collectExportedSpans()).length).toBeGreaterThan(0);
  });
});

describe("the passthrough tracer", () => {
  it("forwards a trace context unchanged, and creates none", () => {
    const { span } = passthroughTracer.startRequest(traceContextHeaders("01", "vendor=1"));
    expect(span).toMatchObject({
      traceId: TRACE_ID,
      isRecording: false,
      headers: { traceparent: `00-${TRACE_ID}-${PARENT_ID}-01`, tracestate: "vendor=1" },
    });
    expect(span.startChild("tier").headers).toEqual(span.headers);
    expect(passthroughTracer.startRequest(noHeaders).span).toMatchObject({
      traceId: undefined,
      headers: {},
    });
  });
});
