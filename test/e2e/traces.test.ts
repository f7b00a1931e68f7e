// Traces through the whole system: a Worker in workerd, a region process, and a collector that holds what they send to OpenTelemetry's
// schema. And the logs of both: every record by its schema, with the request's id, and nothing of anybody's in either.
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { parseLogRecord } from "../../src/telemetry/log-record.ts";
import { startFixtureSystem, type FixtureSystem } from "../support/fixture-system.ts";
import { startHoldingProxy } from "../support/holding-proxy.ts";
import {
  type OtlpReceiver,
  type ReceivedSpan,
  startOtlpReceiver,
} from "../support/otlp-receiver.ts";
import { createTestApiKey, type TestApiKey } from "../support/test-credentials.ts";

const COLLECTORS_KEY = "collectors-key-51c0ffee";
const CANARY = "maybe canary-7f3a"; // unsure, so that the region is asked
const TRACESTATE = "vendor=opaque";

let collector: OtlpReceiver;
let system: FixtureSystem;
let key: TestApiKey;
beforeAll(async () => {
  collector = await startOtlpReceiver();
  key = await createTestApiKey({ scopes: ["predict", "metadata"] });
  const tracing = {
    EDGETIER_OTLP_URL: `${collector.url}/`,
    EDGETIER_OTLP_HEADERS: `x-collector-key=${COLLECTORS_KEY}`,
    EDGETIER_TRACE_SHARE: "0",
    EDGETIER_TRACE_EXTRA_PER_SECOND: "100",
  };
  system = await startFixtureSystem({
    edgeVariables: {
      ...tracing,
      EDGETIER_ACCESS_LOG: "on",
      EDGETIER_API_KEYS: JSON.stringify([key.entry]),
      EDGETIER_REGION_EXTRA_CALLS_SHARE: "1",
    },
    regionVariables: {
      ...tracing,
      EDGETIER_REGION_ACCESS_LOG: "on",
      EDGETIER_REGION_SHARED_RUNS: "off",
      EDGETIER_REGION_MAX_QUEUE_DELAY_US: "20000",
      EDGETIER_REGION_PREFERRED_BATCH_ROWS: "2",
    },
  });
  await predict("maybe"); // a cold isolate's call may be late, and hedged
});
afterAll(async () => {
  await system?.stop();
  await collector?.stop();
});
beforeEach(() => {
  collector.spans.length = 0;
});

/** A client's own trace, sampled or not. */
const createTraceContext = (flags = "01") => {
  const traceId = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("hex");
  return {
    traceId,
    parentId: "00f067aa0ba902b7",
    traceparent: `00-${traceId}-00f067aa0ba902b7-${flags}`,
  };
};

async function predict(
  text: string,
  headers: Readonly<Record<string, string>> = {},
  path = "toy/predict?cache=bypass",
) {
  const response = await fetch(`${system.urls.edge}/v1/models/${path}`, {
    method: "POST",
    headers: {
      "content-type": "text/plain",
      "x-deadline-ms": "10000",
      authorization: `Bearer ${key.key}`,
      cookie: "session=private-cookie",
      ...headers,
    },
    body: text,
  });
  return {
    status: response.status,
    body: await response.text(),
    requestId: response.headers.get("x-request-id") ?? "",
  };
}

const spanTree = (spans: readonly ReceivedSpan[], parent: string, depth = 0): string[] =>
  spans
    .filter(({ parentSpanId }) => parentSpanId === parent)
    .toSorted((a, b) => Number(a.startTimeUnixNano - b.startTimeUnixNano))
    .flatMap((span) => [
      `${"  ".repeat(depth)}${String(span.service).replace("edgetier-", "")} ${span.name}`,
      ...spanTree(spans, span.spanId, depth + 1),
    ]);
const isBatch = ({ name }: ReceivedSpan) => name === "batch";

describe("one request", () => {
  it("is one tree from the client over the edge to the region and its batch", async () => {
    const { traceId, parentId, traceparent } = createTraceContext();
    const { status, requestId } = await predict(CANARY, { traceparent, tracestate: TRACESTATE });
    expect(status).toBe(200);
    await collector.waitForSpans(
      (spans) =>
        spans.some(isBatch) &&
        spans.some(({ kind, service }) => kind === 2 && service === "edgetier-edge"),
    );
    expect(collector.errors).toEqual([]);
    const own = collector.spans.filter((span) => span.traceId === traceId);
    // Phases are there only where the clock has seen them.
    const lines = spanTree(own, parentId).filter(
      (line) => !/ (access|manifest|cache|load|edge)$/.test(line),
    );
    expect(lines).toEqual([
      "edge POST /v1/models/:model/predict",
      "  edge tier",
      "  edge tier",
      "    edge region call",
      "      region POST /v2/models/:model/infer",
      "        region preprocess",
      "        region queue",
      "        region run",
    ]);
    expect(spanTree(own, parentId)).toHaveLength(own.length); // no orphan
    expect(own.every(({ traceState }) => traceState === TRACESTATE)).toBe(true);
    expect(own.find(({ kind }) => kind === 2)?.attributes).toMatchObject({
      "http.response.status_code": "200",
    });
    expect(
      own.find(({ kind, service }) => kind === 2 && service === "edgetier-edge")?.attributes,
    ).toMatchObject({
      "edgetier.model": "toy",
      "edgetier.version": "1",
      "edgetier.request_id": requestId,
      "edgetier.tier": "region",
      "edgetier.cache": "bypass",
    });
    const batch = collector.spans.find(isBatch);
    expect(batch?.links).toEqual([
      {
        traceId,
        spanId: own.find(({ kind, service }) => kind === 2 && service === "edgetier-region")
          ?.spanId,
      },
    ]);
    expect(own.find(({ name }) => name === "run")?.links).toEqual([
      { traceId: batch?.traceId, spanId: batch?.spanId },
    ]);
  });
});

describe("several calls of one request", () => {
  it("that others share a run with: the batch is linked to all of them", async () => {
    const traces = Array.from({ length: 8 }, () => createTraceContext());
    await Promise.all(
      traces.map(({ traceparent }, index) => predict(`maybe ${index}`, { traceparent })),
    );
    const runs = () => collector.spans.filter(({ name }) => name === "run");
    await collector.waitForSpans(
      () => new Set(runs().map(({ traceId }) => traceId)).size === traces.length,
    );
    const shared = collector.spans.filter((span) => isBatch(span) && span.links.length > 1);
    expect(shared.length).toBeGreaterThan(0);
    for (const { traceId, spanId, links, attributes } of shared) {
      expect(attributes["edgetier.batch.requests"]).toBe(String(links.length));
      const linked = runs().filter((run) =>
        run.links.some((link) => link.traceId === traceId && link.spanId === spanId),
      );
      expect(linked.map((run) => [run.traceId, run.parentSpanId]).toSorted()).toEqual(
        links.map((link) => [link.traceId, link.spanId]).toSorted(),
      );
    }
  });

  it("that is hedged: each call is a span of its own, and the one that nobody waited for says so", async () => {
    const { traceId, traceparent } = createTraceContext();
    const between = await startHoldingProxy(system.urls.region);
    [system.proxy.behavior, system.proxy.target] = ["resets", between.url]; // open connections are closed
    system.proxy.behavior = "forwards";
    between.holdNext();
    expect((await predict(CANARY, { traceparent })).status).toBe(200);
    [system.proxy.behavior, system.proxy.target] = ["resets", system.urls.region];
    system.proxy.behavior = "forwards";
    await between.stop();
    const calls = () =>
      collector.spans.filter((span) => span.traceId === traceId && span.name === "region call");
    await collector.waitForSpans(() => calls().length === 2);
    expect(
      calls()
        .map(({ attributes }) => attributes["edgetier.attempt"])
        .toSorted(),
    ).toEqual(["first", "hedge"]);
    expect(
      calls()
        .map(({ attributes }) => attributes["edgetier.result"])
        .toSorted(),
    ).toEqual(["abandoned", "ok"]);
    expect(new Set(calls().map(({ parentSpanId }) => parentSpanId)).size).toBe(1);
  });
});

describe("what is not sampled", () => {
  it("is recorded nowhere, but for what failed or was degraded, at the edge", async () => {
    await predict(CANARY, { traceparent: createTraceContext("00").traceparent });
    await predict(CANARY);
    const { traceId, traceparent } = createTraceContext("00");
    system.proxy.behavior = "resets";
    try {
      expect(JSON.parse((await predict(CANARY, { traceparent })).body).outputs[0]).toMatchObject({
        tier: "edge",
        degraded: true,
      });
    } finally {
      system.proxy.behavior = "forwards";
    }
    await collector.waitForSpans((spans) => spans.some((span) => span.traceId === traceId));
    expect(new Set(collector.spans.map((span) => span.traceId))).toEqual(new Set([traceId]));
    const root = collector.spans.find(({ kind }) => kind === 2);
    expect(root?.attributes).toMatchObject({ "edgetier.degraded": true });
    expect(
      collector.spans
        .filter(({ name, status }) => name === "tier" && status.code === 2)
        .map(({ attributes }) => attributes["error.type"]),
    ).toEqual(["region_unavailable"]);
  });
});

describe("a collector that does not answer as it should", () => {
  it("costs no request anything, and what it did not take is counted and logged", async () => {
    collector.status = 503;
    try {
      expect(
        (await predict(CANARY, { traceparent: createTraceContext().traceparent })).status,
      ).toBe(200);
      await vi.waitUntil(
        () =>
          system.output.edge().includes('"event":"spans_dropped"') &&
          system.output.region.some((line) => line.includes('"event":"spans_dropped"')),
        10_000,
      );
    } finally {
      collector.status = 200;
    }
    const page = await (await fetch(`${system.urls.region}/metrics`)).text();
    expect(page).toMatch(/edgetier_region_spans_dropped_total\{reason="unsent"\} [1-9]/);
  });
});

describe("what edge and region tell", () => {
  it("is by the schema, with the ids of its request, and has nothing of the client's or the deployment's in it", async () => {
    const { traceId, traceparent } = createTraceContext();
    const { requestId } = await predict(CANARY, { traceparent });
    await predict(CANARY, {}, "toy/predict?private-parameter=1"); // rejected
    await fetch(`${system.urls.edge}/v1/models/toy/predict?input=${encodeURIComponent(CANARY)}`, {
      headers: {
        authorization: `Bearer ${key.key}`,
        traceparent: createTraceContext().traceparent,
      },
    });
    await predict(CANARY, { authorization: "Bearer et_wrong-key-0123456789" });
    await predict("x".repeat(100)); // too long for the model
    await predict(CANARY, { "x-deadline-ms": "nonsense" });
    system.proxy.behavior = "resets";
    await predict(CANARY, {}, "far-vectors/predict");
    await fetch(`${system.urls.edge}/v1/embeddings`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key.key}` },
      body: JSON.stringify({ model: "far-vectors", input: CANARY }),
    });
    system.proxy.behavior = "forwards";
    await fetch(`${system.urls.region}/v2/models/toy/infer`, {
      method: "POST",
      body: JSON.stringify({
        inputs: [{ name: "input", datatype: "BYTES", shape: [1], data: [CANARY, CANARY] }],
      }),
    });
    await collector.waitForSpans(
      (spans) => spans.filter((span) => span.traceId === traceId).length > 5,
    );

    const recordsOf = (lines: readonly string[]) =>
      lines.flatMap((line) => (line.startsWith("{") ? [parseLogRecord(JSON.parse(line))] : []));
    const edge = recordsOf(system.output.edge().split("\n"));
    const region = recordsOf(system.output.region);
    for (const records of [edge, region])
      expect(
        records.filter((record) => record.event === "request" && record.requestId === requestId),
      ).toMatchObject([{ traceId, status: 200 }]);
    expect(
      [...edge, ...region].filter(
        (record) => record.event.startsWith("request") && (record.requestId ?? "") === "",
      ),
    ).toEqual([]);
    expect(edge.filter(({ event }) => event === "request_failed").length).toBeGreaterThan(0);

    const told = [system.output.edge(), ...system.output.region, ...collector.bodies].join("\n");
    for (const secret of ["canary", key.key, "et_wrong", COLLECTORS_KEY, "private-"])
      expect(told.split("\n").filter((line) => line.includes(secret))).toEqual([]);
    expect(
      collector.headers.every((headers) => headers["x-collector-key"] === COLLECTORS_KEY),
    ).toBe(true);
  });
});
