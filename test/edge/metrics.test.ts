// Metrics in workerd: the metrics of served requests, and GET /metrics.
import { beforeEach, describe, expect, it, vi } from "vitest";
import { createApiKeyAuthenticator } from "../../src/http/access/drivers/api-key-authenticator.ts";
import {
  type MetricsSnapshot,
  metricsSnapshotSchema,
} from "../../src/protocol/metrics-snapshot.ts";
import toy from "../fixtures/toy.onnx";
import {
  type EdgeUnderTest,
  type EdgeUnderTestOptions,
  startEdgeUnderTest,
} from "../support/edge-app.ts";
import { createTestApiKey } from "../support/test-credentials.ts";
import { fullDeployment } from "./full-engine.ts";
import { post, textsInput } from "./infer-requests.ts";
import { readProblem } from "./read-problem.ts";

let edge: EdgeUnderTest;
const start = async (options: EdgeUnderTestOptions = {}) =>
  (edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment, options));
beforeEach(async () => {
  await start();
});

const openMetricsAccess = {
  createAccess: () => ({ authenticators: [], metricsScope: "metadata" as const }),
};
const readSeries = async (): Promise<MetricsSnapshot["series"]> =>
  metricsSnapshotSchema.parse(
    await (await edge.app.request("/metrics", { headers: { accept: "application/json" } })).json(),
  ).series;
const listRequests = () =>
  edge
    .readCountedLabels("edgetier_requests_total")
    .map(({ route, model, status }) => `${route} ${model} ${status}`);

describe("the metrics", () => {
  it("count each request by route, model and status, without invented models", async () => {
    await edge.predict({ inputs: "yes" });
    await edge.predict({ inputs: 7 });
    for (const path of [
      "/v1/models/toy@7/predict?input=yes",
      "/v1/models/invented/predict?input=yes",
      "/v1/models/toy",
      "/v1/models",
      "/v1/regions",
      "/v2/health/live",
      "/v2/models/toy",
      "/invented",
      "/metrics",
    ])
      await edge.app.request(path);
    await post(edge, "/v2/models/toy/infer", { inputs: [textsInput("yes")] });
    await edge.app.request("/v1/embeddings", {
      method: "POST",
      body: "{}",
      headers: { "content-type": "application/json" },
    });
    expect(listRequests()).toEqual([
      "predict toy 200",
      "predict  400",
      "predict toy 404",
      "predict  404",
      "models toy 200",
      "models toy 200",
      "models  200",
      "regions  200",
      "health  200",
      "other  404",
      "metrics  401",
      "infer toy 200",
      "embeddings  400",
    ]);
    expect(edge.readCountedLabels("edgetier_request_duration_seconds")).toHaveLength(13);
    expect(
      new Set(edge.readCountedLabels("edgetier_phase_duration_seconds").map(({ phase }) => phase)),
    ).toEqual(new Set(["manifest", "cache", "load", "edge"]));
  });
});

describe("the metrics of answers", () => {
  it("count each answer by tier and confidence, and the inputs of each tier", async () => {
    await edge.predict({ inputs: ["yes", "maybe"] });
    await edge.predict({ inputs: ["yes", "maybe"] });
    const labels = { model: "toy", version: "1" };
    expect(edge.readCountedLabels("edgetier_answers_total")).toEqual([
      { ...labels, tier: "edge", degraded_by: "" },
      { ...labels, tier: "region", degraded_by: "" },
    ]);
    expect(edge.readCountedLabels("edgetier_confidence")).toEqual([
      { ...labels, tier: "edge" },
      { ...labels, tier: "region" },
    ]);
    expect(edge.readCountedLabels("edgetier_tier_inputs_total")).toEqual([
      { ...labels, tier: "edge" },
      { ...labels, tier: "edge" },
      { ...labels, tier: "region" },
    ]);
    expect(edge.readCountedLabels("edgetier_cache_results_total")).toEqual([
      { model: "toy", result: "miss" },
      { model: "toy", result: "l1" },
    ]);
    expect(edge.readCountedLabels("edgetier_deadline_seconds")).toEqual([{ model: "toy" }]);
  });
});

describe("the metrics of failures and forwarded requests", () => {
  it("count the errors that prevent escalation", async () => {
    edge.regionBehavior = "down";
    await edge.predict({ inputs: "maybe" });
    expect(edge.readCountedLabels("edgetier_answers_total")).toEqual([
      { model: "toy", version: "1", tier: "edge", degraded_by: "region_unavailable" },
    ]);
    expect(edge.readCountedLabels("edgetier_tier_failures_total")).toEqual([
      { model: "toy", version: "1", tier: "region", error: "region_unavailable" },
    ]);
  });

  it("count revalidated responses as held", async () => {
    const response = await edge.app.request("/v1/models/toy/predict?input=yes");
    await edge.app.request("/v1/models/toy/predict?input=yes", {
      headers: { "if-none-match": response.headers.get("etag") ?? "" },
    });
    expect(
      edge.readCountedLabels("edgetier_cache_results_total").map(({ result }) => result),
    ).toEqual(["miss", "held"]);
  });

  it("count each text that a tier answers over /v2, and each forwarded request", async () => {
    await post(edge, "/v2/models/toy/infer", { inputs: [textsInput("yes", "maybe")] });
    await post(edge, "/v2/models/toy/infer", {
      inputs: [textsInput("yes")],
      parameters: { tier: "region" },
    });
    expect(edge.readCountedLabels("edgetier_answers_total").map(({ tier }) => tier)).toEqual([
      "edge",
      "region",
      "region",
    ]);
  });
});

describe("GET /metrics", () => {
  it("follows a report that each request schedules within a second", async () => {
    await start(openMetricsAccess);
    await edge.predict({ inputs: "yes" });
    edge.clock.advance(1_000);
    await vi.waitFor(() => expect(edge.countReportedBatches()).toBeGreaterThan(0));
  });

  it("returns Prometheus text with the latest counts of this isolate", async () => {
    await start(openMetricsAccess);
    await edge.predict({ inputs: "yes" });
    const response = await edge.app.request("/metrics");
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(await response.text()).toContain(
      '\nedgetier_requests_total{route="predict",model="toy",status="200"} 1\n',
    );
  });

  it("answers 503 while the aggregator is unavailable, without effect on other routes", async () => {
    await start(openMetricsAccess);
    edge.disconnectAggregator();
    const { status, headers } = await edge.app.request("/metrics");
    expect(status).toBe(503);
    expect(headers.get("retry-after")).toBe("1");
    expect((await edge.predict({ inputs: "yes" })).status).toBe(200);
  });

  it("returns JSON if the client prefers it", async () => {
    await start(openMetricsAccess);
    await edge.predict({ inputs: "yes" });
    const series = await readSeries();
    expect(series).toContainEqual({
      kind: "counter",
      name: "edgetier_answers_total",
      labels: { model: "toy", version: "1", tier: "edge", degraded_by: "" },
      value: 1,
    });
    expect(series.find(({ name }) => name === "edgetier_confidence")).toMatchObject({
      kind: "histogram",
      labels: { tier: "edge" },
      counts: expect.any(Array),
    });
    const prometheus = await edge.app.request("/metrics", {
      headers: {
        accept:
          "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
      },
    });
    expect(prometheus.headers.get("content-type")).toContain("text/plain");
  });
});

describe("GET /metrics with access control", () => {
  it("requires the scope admin, or metadata if configured", async () => {
    const [reader, admin] = await Promise.all([
      createTestApiKey({ id: "reader", scopes: ["metadata"] }),
      createTestApiKey({ id: "admin", scopes: ["admin"] }),
    ]);
    const createProtectedAccess = (metricsScope?: "metadata") => ({
      createAccess: (clock: EdgeUnderTest["clock"]) => ({
        authenticators: [createApiKeyAuthenticator([reader.entry, admin.entry], clock)],
        metricsScope,
      }),
    });
    const getStatus = async (key?: string) =>
      (
        await edge.app.request(
          "/metrics",
          key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } },
        )
      ).status;
    await start(createProtectedAccess());
    expect(await getStatus()).toBe(401);
    expect(await getStatus(reader.key)).toBe(403);
    expect(await getStatus(admin.key)).toBe(200);
    await start(createProtectedAccess("metadata"));
    expect(await getStatus()).toBe(401);
    expect(await getStatus(reader.key)).toBe(200);
    await start();
    expect(await getStatus()).toBe(401);
  });

  it("answers 501 without an aggregator", async () => {
    await start({ ...openMetricsAccess, withoutMetrics: true });
    const response = await edge.app.request("/metrics");
    expect(await readProblem(response)).toMatchObject({
      status: 501,
      code: "unsupported",
      remedy: expect.stringContaining("EDGETIER_METRICS"),
    });
  });
});
