// The tracer: what becomes a trace, how it is told to others, and what is dropped rather than waited for.
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
const nothing = () => undefined;
const END = { name: "POST /", attributes: {} };

let clock: ManualClock;
let sent: EndedSpan[][];
let dropped: [SpanDropReason, number][];
let work: Promise<unknown>[];
let send: (spans: readonly EndedSpan[]) => Promise<number>;
const waitUntil = (one: Promise<unknown>) => void work.push(one);
beforeEach(() => {
  clock = new ManualClock(1_000_000);
  [sent, dropped, work] = [[], [], []];
  send = async (spans) => {
    sent.push([...spans]);
    return 0;
  };
});

function createTestTracer({ share = 1, extraPerSecond = 2 } = {}): Tracer {
  const exporter = createSpanExporter({
    send: (spans) => send(spans),
    clock,
    onDropped: (reason, spans) => dropped.push([reason, spans]),
  });
  return createTracer({
    clock,
    exporter,
    sampleRatio: share,
    extraTracesPerSecond: extraPerSecond,
  });
}

/** After the second in which spans are gathered. */
async function collectExportedSpans(): Promise<EndedSpan[]> {
  clock.advance(1_000);
  await Promise.all(work.splice(0));
  return sent.splice(0).flat();
}

describe("a request's trace", () => {
  it("is one tree, in the client's trace, with what ends after the request", async () => {
    const { span, finish } = createTestTracer().startRequest(traceContextHeaders("01", "vendor=1"));
    expect(span).toMatchObject({
      traceId: TRACE_ID,
      isSampled: true,
      isRecording: true,
      headers: { traceparent: `00-${TRACE_ID}-${span.id}-01`, tracestate: "vendor=1" },
    });
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
    const root = {
      name: "POST /v1",
      kind: "server",
      id: span.id,
      parentId: PARENT_ID,
      startMs: 1_000_000,
      endMs: 1_000_020,
      errorCode: undefined,
      attributes: { "http.response.status_code": 200 },
    };
    expect(spans.find(({ kind }) => kind === "server")).toMatchObject(root);
    expect(
      spans.map(({ name, parentId, endMs, errorCode: error }) => [
        name,
        parentId,
        endMs - 1_000_000,
        error,
      ]),
    ).toEqual([
      ["region call", tier.id, 20, "timed_out"],
      ["tier", span.id, 20, undefined],
      ["POST /v1", PARENT_ID, 20, undefined],
      ["region call", tier.id, 25, undefined],
    ]);
    expect(new Set(spans.map(({ id }) => id))).toHaveProperty("size", 4);
    expect(
      spans.every(
        ({ traceId, traceState: state, isSampled }) =>
          traceId === TRACE_ID && state === "vendor=1" && isSampled,
      ),
    ).toBe(true);
  });

  it("begins here without a context, or with one that is none", () => {
    const tracer = createTestTracer();
    for (const traceparent of [
      undefined,
      "",
      "00-0-0-00",
      `00-${"0".repeat(32)}-${PARENT_ID}-01`,
      `00-${TRACE_ID}-${"0".repeat(16)}-01`,
      `ff-${TRACE_ID}-${PARENT_ID}-01`,
      `00-${TRACE_ID.toUpperCase()}-${PARENT_ID}-01`,
      `00-${TRACE_ID}-${PARENT_ID}-01-more`,
    ]) {
      const { span } = tracer.startRequest(
        (name) => ({ traceparent, tracestate: "vendor=1" })[name],
      );
      expect(span.traceId).toMatch(/^[0-9a-f]{32}$/);
      expect(span.traceId).not.toBe(TRACE_ID);
      expect(span.headers).toEqual({ traceparent: `00-${span.traceId}-${span.id}-01` });
    }
  });

  it("is not sent without an end, nor is what ends later", async () => {
    const { span, finish } = createTestTracer().startRequest(nothing);
    const child = span.startChild("phase");
    finish(waitUntil);
    child.end();
    expect(await collectExportedSpans()).toEqual([]);
  });
});

describe("sampling", () => {
  const sampledOf = (tracer: Tracer, header: (name: string) => string | undefined, n: number) =>
    Array.from({ length: n }, () => tracer.startRequest(header).span.isSampled).filter(Boolean)
      .length;

  it("takes a share of the traces that begin here", () => {
    expect(sampledOf(createTestTracer({ share: 0 }), nothing, 100)).toBe(0);
    expect(sampledOf(createTestTracer({ share: 1 }), nothing, 100)).toBe(100);
    const half = sampledOf(createTestTracer({ share: 0.5 }), nothing, 2_000);
    expect(half).toBeGreaterThan(850); // 6.7 standard deviations
    expect(half).toBeLessThan(1_150);
  });

  it("follows a client, who can make only so many dear", () => {
    const tracer = createTestTracer({ share: 1, extraPerSecond: 3 });
    expect(sampledOf(tracer, traceContextHeaders("00"), 10)).toBe(0);
    expect(sampledOf(tracer, traceContextHeaders("01"), 10)).toBe(3);
    clock.advance(500);
    expect(sampledOf(tracer, traceContextHeaders("01"), 10)).toBe(1);
    clock.advance(60_000);
    expect(sampledOf(tracer, traceContextHeaders("03"), 10)).toBe(3);
    expect(sampledOf(createTestTracer({ extraPerSecond: 0 }), traceContextHeaders("01"), 10)).toBe(
      0,
    );
  });

  it("keeps what failed, or is worth it, within a rate of its own, and tells nobody further on", async () => {
    const tracer = createTestTracer({ share: 0, extraPerSecond: 2 });
    for (const [error, isWorth] of [
      ["session_failed", false],
      [undefined, false],
      [undefined, true],
      ["session_failed", false],
    ] as const) {
      const { span, finish } = tracer.startRequest(nothing);
      expect(span.headers["traceparent"]).toMatch(/-00$/);
      if (isWorth) span.startChild("tier").forceRecording();
      finish(waitUntil, { ...END, error });
    }
    expect(
      (await collectExportedSpans()).map(({ errorCode: error, isSampled }) => [error, isSampled]),
    ).toEqual([
      ["session_failed", false],
      [undefined, false],
    ]);
  });
});

describe("work that requests shared", () => {
  it("is a tree of its own with links to them, where one of them is sampled", async () => {
    const tracer = createTestTracer({ share: 0 });
    const [one, other, unsampled] = [
      tracer.startRequest(traceContextHeaders("01")),
      tracer.startRequest(traceContextHeaders("01")),
      tracer.startRequest(nothing),
    ];
    const batch = tracer.recordLinkedSpan("batch", { rows: 3 }, { startMs: 5, endMs: 9 }, [
      one.span,
      other.span,
    ]);
    tracer.recordLinkedSpan("batch", { rows: 1 }, { startMs: 5, endMs: 9 }, [unsampled.span]);
    await tracer.flush();
    expect(sent.flat()).toMatchObject([
      {
        name: "batch",
        id: batch.id,
        parentId: undefined,
        startMs: 5,
        endMs: 9,
        attributes: { rows: 3 },
      },
    ]);
    expect(sent.flat()[0]?.links.map(({ traceId, id }) => [traceId, id])).toEqual([
      [TRACE_ID, one.span.id],
      [TRACE_ID, other.span.id],
    ]);
    expect(batch.traceId).not.toBe(TRACE_ID);
  });
});

describe("sending", () => {
  const trace = (tracer: Tracer) => tracer.startRequest(nothing).finish(waitUntil, END);

  it("gathers a second's spans into one message, and has only one request wait for it", async () => {
    const tracer = createTestTracer();
    for (let i = 0; i < 10; i++) trace(tracer);
    expect(work).toHaveLength(1);
    expect(sent).toEqual([]);
    expect(await collectExportedSpans()).toHaveLength(10);
    trace(tracer);
    expect(await collectExportedSpans()).toHaveLength(1);
  });

  it("is taken over where the platform has ended the request that was to do it", async () => {
    const tracer = createTestTracer();
    const forgotten: Promise<unknown>[] = [];
    const timers: ManualClock["setTimer"] = clock.setTimer;
    clock.setTimer = () => () => {}; // its timer went with it
    tracer.startRequest(nothing).finish((one) => void forgotten.push(one), END);
    clock.setTimer = timers;
    clock.advance(2_500);
    trace(tracer);
    expect(await collectExportedSpans()).toHaveLength(2);
  });

  it("drops what comes quicker than it can be sent, and counts it", async () => {
    send = () => new Promise(() => {});
    const tracer = createTestTracer();
    for (let i = 0; i < 4_000; i++) trace(tracer);
    expect(dropped.reduce((sum, [reason, spans]) => sum + (reason === "full" ? spans : 0), 0)).toBe(
      4_000 - 2_048 - 2 * 512,
    );
  });

  it("drops what the collector does not take, and counts it; the next are sent", async () => {
    const tracer = createTestTracer();
    const good = send;
    send = () => Promise.reject(new TypeError("connection refused"));
    trace(tracer);
    expect(await collectExportedSpans()).toEqual([]);
    send = async (spans) => (await good(spans)) + 1;
    trace(tracer);
    trace(tracer);
    expect(await collectExportedSpans()).toHaveLength(2);
    expect(dropped).toEqual([
      ["unsent", 1],
      ["unsent", 1],
    ]);
  });

  it("goes on when two messages hang", async () => {
    const good = send;
    send = () => new Promise(() => {});
    const tracer = createTestTracer();
    trace(tracer);
    clock.advance(1_000);
    await Promise.resolve();
    trace(tracer);
    clock.advance(1_000);
    await Promise.resolve();
    send = good;
    trace(tracer);
    clock.advance(9_000);
    trace(tracer);
    work.splice(0, 2); // those hang
    expect((await collectExportedSpans()).length).toBeGreaterThan(0);
  });
});

describe("without a collector", () => {
  it("hands a context on as it came, and makes none", () => {
    const { span } = passthroughTracer.startRequest(traceContextHeaders("01", "vendor=1"));
    expect(span).toMatchObject({
      traceId: TRACE_ID,
      isRecording: false,
      headers: { traceparent: `00-${TRACE_ID}-${PARENT_ID}-01`, tracestate: "vendor=1" },
    });
    expect(span.startChild("tier").headers).toEqual(span.headers);
    expect(passthroughTracer.startRequest(nothing).span).toMatchObject({
      traceId: undefined,
      headers: {},
    });
  });
});
