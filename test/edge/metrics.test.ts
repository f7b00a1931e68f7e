// Inside workerd: what the application counts of the requests that it answers, and GET /metrics.
import { beforeEach, describe, expect, it, vi } from "vitest";
import { createApiKeyAuthenticator } from "../../src/http/access/drivers/api-key-authenticator.ts";
import {
  type MetricsSnapshot,
  metricsSnapshotSchema,
} from "../../src/protocol/metrics-snapshot.ts";
import toy from "../fixtures/toy.onnx";
import { createTestApiKey } from "../support/test-credentials.ts";
import {
  type EdgeUnderTest,
  type EdgeUnderTestOptions,
  startEdgeUnderTest,
} from "../support/edge-app.ts";
import { fullDeployment } from "./full-engine.ts";
import { post, textsInput } from "./infer-requests.ts";

let edge: EdgeUnderTest;
const start = async (options: EdgeUnderTestOptions = {}) =>
  (edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment, options));
beforeEach(async () => {
  await start();
});

const openMetricsAccess = {
  createAccess: () => ({ authenticators: [], metricsScope: "metadata" as const }),
};
const snapshot = async (): Promise<MetricsSnapshot["series"]> =>
  metricsSnapshotSchema.parse(
    await (await edge.app.request("/metrics", { headers: { accept: "application/json" } })).json(),
  ).series;
const statuses = () =>
  edge
    .readCountedLabels("edgetier_requests_total")
    .map(({ route, model, status }) => `${route} ${model} ${status}`);

describe("what is counted", () => {
  it("is each request by route, model and status, and no model that only the client knows of", async () => {
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
    expect(statuses()).toEqual([
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

  it("is each answer by its tier and confidence, what each tier was asked, and where answers came from", async () => {
    await edge.predict({ inputs: ["yes", "maybe"] });
    await edge.predict({ inputs: ["yes", "maybe"] });
    const of = { model: "toy", version: "1" };
    expect(edge.readCountedLabels("edgetier_answers_total")).toEqual([
      { ...of, tier: "edge", degraded_by: "" },
      { ...of, tier: "region", degraded_by: "" },
    ]);
    expect(edge.readCountedLabels("edgetier_confidence")).toEqual([
      { ...of, tier: "edge" },
      { ...of, tier: "region" },
    ]);
    expect(edge.readCountedLabels("edgetier_tier_inputs_total")).toEqual([
      { ...of, tier: "edge" },
      { ...of, tier: "edge" },
      { ...of, tier: "region" },
    ]);
    expect(edge.readCountedLabels("edgetier_cache_results_total")).toEqual([
      { model: "toy", result: "miss" },
      { model: "toy", result: "l1" },
    ]);
    expect(edge.readCountedLabels("edgetier_deadline_seconds")).toEqual([{ model: "toy" }]);
  });

  it("is what kept a better tier from being asked, also where nothing was answered in the end", async () => {
    edge.regionBehavior = "down";
    await edge.predict({ inputs: "maybe" });
    expect(edge.readCountedLabels("edgetier_answers_total")).toEqual([
      { model: "toy", version: "1", tier: "edge", degraded_by: "region_unavailable" },
    ]);
    expect(edge.readCountedLabels("edgetier_tier_failures_total")).toEqual([
      { model: "toy", version: "1", tier: "region", error: "region_unavailable" },
    ]);
  });

  it("is a client's own answer that it holds", async () => {
    const asked = await edge.app.request("/v1/models/toy/predict?input=yes");
    await edge.app.request("/v1/models/toy/predict?input=yes", {
      headers: { "if-none-match": asked.headers.get("etag") ?? "" },
    });
    expect(
      edge.readCountedLabels("edgetier_cache_results_total").map(({ result }) => result),
    ).toEqual(["miss", "held"]);
  });

  it("is each text that a tier answered over /v2, and each request that went through to the region", async () => {
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
  it("is reported after a second by the work of the request, without anybody asking", async () => {
    await start(openMetricsAccess);
    await edge.predict({ inputs: "yes" });
    edge.clock.advance(1_000);
    await vi.waitFor(() => expect(edge.countReportedBatches()).toBeGreaterThan(0));
  });

  it("is Prometheus' text, with what this isolate has counted just now", async () => {
    await start(openMetricsAccess);
    await edge.predict({ inputs: "yes" });
    const response = await edge.app.request("/metrics");
    expect([
      response.status,
      response.headers.get("content-type"),
      response.headers.get("cache-control"),
    ]).toEqual([200, "text/plain; version=0.0.4; charset=utf-8", "no-store"]);
    expect(await response.text()).toContain(
      '\nedgetier_requests_total{route="predict",model="toy",status="200"} 1\n',
    );
  });

  it("is 503 while the aggregator is away, which no other request notices", async () => {
    await start(openMetricsAccess);
    edge.disconnectAggregator();
    const { status, headers } = await edge.app.request("/metrics");
    expect([status, headers.get("retry-after")]).toEqual([503, "1"]);
    expect((await edge.predict({ inputs: "yes" })).status).toBe(200);
  });

  it("is JSON for who prefers that", async () => {
    await start(openMetricsAccess);
    await edge.predict({ inputs: "yes" });
    const series = await snapshot();
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

  it("needs the scope admin, or metadata where the configuration says so", async () => {
    const [looks, runs] = await Promise.all([
      createTestApiKey({ id: "looks", scopes: ["metadata"] }),
      createTestApiKey({ id: "runs", scopes: ["admin"] }),
    ]);
    const closed = (metricsScope?: "metadata") => ({
      createAccess: (clock: EdgeUnderTest["clock"]) => ({
        authenticators: [createApiKeyAuthenticator([looks.entry, runs.entry], clock)],
        metricsScope,
      }),
    });
    const status = async (key?: string) =>
      (
        await edge.app.request(
          "/metrics",
          key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } },
        )
      ).status;
    await start(closed());
    expect([await status(), await status(looks.key), await status(runs.key)]).toEqual([
      401, 403, 200,
    ]);
    await start(closed("metadata"));
    expect([await status(), await status(looks.key)]).toEqual([401, 200]);
    await start();
    expect(await status()).toBe(401);
  });

  it("says what is missing where there is no aggregator", async () => {
    await start({ ...openMetricsAccess, withoutMetrics: true });
    const response = await edge.app.request("/metrics");
    expect([response.status, await response.json()]).toMatchObject([
      501,
      { code: "unsupported", remedy: expect.stringContaining("EDGETIER_METRICS") },
    ]);
  });
});
