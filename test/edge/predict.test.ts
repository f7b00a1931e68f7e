// Predict route in workerd: answers, ETags, caching and faults.
import { beforeEach, describe, expect, it, vi } from "vitest";
import { type PredictResponse, predictResponseSchema } from "../../src/protocol/predict.ts";
import toy from "../fixtures/toy.onnx";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullDeployment } from "./full-engine.ts";
import { readProblem } from "./read-problem.ts";

let edge: EdgeUnderTest;
beforeEach(async () => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment);
});

async function readPrediction(response: Response): Promise<PredictResponse> {
  expect(response.status, await response.clone().text()).toBe(200);
  return predictResponseSchema.parse(await response.json());
}

describe("POST predict", () => {
  it("answers at the edge if the edge tier is confident", async () => {
    const response = await edge.predict({ inputs: "yes" }, { "x-request-id": "r-1" });
    const { id, model, version, outputs, usage } = await readPrediction(response);
    expect({ id, model, version }).toEqual({ id: "r-1", model: "toy", version: 1 });
    expect(outputs[0]).toMatchObject({
      label: "yes",
      tier: "edge",
      degraded: false,
      confidence: expect.closeTo(1 / (1 + Math.exp(-6)), 5),
    });
    expect(outputs[0]?.scores.map(({ label }) => label)).toEqual(["yes", "no", "oos"]);
    expect(usage.tiers).toEqual([{ tier: "edge", inputs: 1 }]);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "x-request-id": "r-1",
      "x-edgetier-tier": "edge",
      "x-edgetier-cache": "miss",
      "cache-control": "no-store",
    });
    expect(edge.regionRequests).toEqual([]);
  });

  it("escalates the uncertain inputs of an array in one request, and keeps the order", async () => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const { outputs, usage } = await readPrediction(
      await edge.predict({ inputs: ["maybe", "no", "zzz", "yes"] }, { traceparent }),
    );
    expect(outputs).toMatchObject([
      { label: "no", tier: "region" },
      { label: "no", tier: "edge" },
      { label: "no", tier: "region" },
      { label: "yes", tier: "edge" },
    ]);
    expect(usage.tiers).toEqual([
      { tier: "edge", inputs: 4 },
      { tier: "region", inputs: 2 },
    ]);
    expect(edge.regionRequests).toHaveLength(1);
    expect(edge.regionRequests[0]).toMatchObject({
      model: "toy",
      version: 1,
      tier: "region",
      span: { headers: { traceparent } },
    });
    expect(edge.regionRequests[0]?.inputs.map((bytes) => new TextDecoder().decode(bytes))).toEqual([
      "maybe",
      "zzz",
    ]);
  });
});

describe("POST predict with other bodies and parameters", () => {
  it("accepts a raw text body", async () => {
    const { outputs } = await readPrediction(
      await edge.predict("yes", { "content-type": "text/plain; charset=utf-8" }),
    );
    expect(outputs[0]?.label).toBe("yes");
  });

  it("honors topK and maxTier", async () => {
    const { outputs } = await readPrediction(
      await edge.predict({ inputs: "maybe", parameters: { topK: 1, maxTier: "edge" } }),
    );
    expect(outputs[0]).toMatchObject({ label: "yes", tier: "edge", degraded: false });
    expect(outputs[0]?.scores).toHaveLength(1);
    expect(edge.regionRequests).toEqual([]);
  });

  it("answers concurrent requests at a cold start", async () => {
    const labels = await Promise.all(
      ["yes", "no", "yes", "no"].map(
        async (inputs) => (await readPrediction(await edge.predict({ inputs }))).outputs[0]?.label,
      ),
    );
    expect(labels).toEqual(["yes", "no", "yes", "no"]);
  });

  it("accepts a version and an alias", async () => {
    for (const ref of ["toy@1", "toy@stable"]) {
      const response = await edge.app.request(`/v1/models/${ref}/predict?input=yes`);
      expect((await readPrediction(response)).version).toBe(1);
    }
  });
});

describe("GET and QUERY predict", () => {
  const path = "/v1/models/toy/predict?input=yes";

  it("return a strong ETag, and 304 for a matching one", async () => {
    const first = await edge.app.request(path);
    const etag = first.headers.get("etag") ?? "";
    expect(etag).toMatch(/^"[0-9a-f]{32}"$/);
    expect(first.headers.get("cache-tag")).toBe("toy,toy:1,toy@stable");
    const again = await edge.app.request(path, {
      headers: { "if-none-match": `"other", ${etag}` },
    });
    expect(again.status).toBe(304);
    expect(await again.text()).toBe("");
    const other = await edge.app.request(`${path}&topK=1`, { headers: { "if-none-match": etag } });
    expect(other.status).toBe(200);
  });

  it("accept QUERY with a JSON body", async () => {
    const request = {
      method: "QUERY",
      headers: { "content-type": "application/json" },
      body: '{"inputs":"no"}',
    };
    const response = await edge.app.request("/v1/models/toy/predict", request);
    expect((await readPrediction(response)).outputs[0]?.label).toBe("no");
    expect(response.headers.get("etag")).not.toBeNull();
  });
});

describe("the cache of predictions", () => {
  it("serves a repeated request from L1, and is neither read nor written on bypass", async () => {
    const readCacheResult = async (parameters?: object) =>
      (await edge.predict({ inputs: "maybe", parameters })).headers.get("x-edgetier-cache");
    expect(await readCacheResult({ cache: "bypass" })).toBe("bypass");
    expect(await readCacheResult()).toBe("miss");
    expect(await readCacheResult()).toBe("l1");
    expect(edge.regionRequests).toHaveLength(2);
    expect(await readCacheResult({ cache: "refresh" })).toBe("miss");
    expect(edge.regionRequests).toHaveLength(3);
  });

  it("returns the same outputs, with their tier", async () => {
    const first = await readPrediction(await edge.predict({ inputs: "maybe" }));
    const second = await readPrediction(await edge.predict({ inputs: "maybe" }));
    expect(second.outputs).toEqual(first.outputs);
    expect(second.usage.tiers).toEqual([]);
  });

  it("stores no degraded output", async () => {
    edge.regionBehavior = "down";
    expect(
      (await readPrediction(await edge.predict({ inputs: "maybe" }))).outputs[0]?.degraded,
    ).toBe(true);
    edge.regionBehavior = "up";
    expect(
      (await readPrediction(await edge.predict({ inputs: "maybe" }))).outputs[0],
    ).toMatchObject({
      degraded: false,
      tier: "region",
    });
  });
});

describe("a failing region", () => {
  it("makes the edge's answer degraded", async () => {
    edge.regionBehavior = "down";
    const { outputs, usage } = await readPrediction(
      await edge.predict({ inputs: ["maybe", "yes"] }),
    );
    expect(outputs[0]).toMatchObject({
      label: "yes",
      tier: "edge",
      degraded: true,
      degradedBy: "region_unavailable",
    });
    expect(outputs[1]).toMatchObject({ degraded: false });
    expect(usage.tiers[1]).toEqual({ tier: "region", inputs: 1, error: "region_unavailable" });
  });

  it("does not delay the answer beyond the client's or the model's deadline", async () => {
    await edge.predict({ inputs: "yes" }); // loads the model
    edge.regionBehavior = "hangs";
    for (const [headers, budgetMs] of [
      [{ "x-deadline-ms": "200" }, 200],
      [{ prefer: "wait=1" }, 1000],
      [{}, 1000],
    ] as const) {
      const before = edge.regionRequests.length;
      const waiting = edge.predict({ inputs: "maybe", parameters: { cache: "bypass" } }, headers);
      await vi.waitFor(() => expect(edge.regionRequests.length).toBe(before + 1));
      expect(edge.regionRequests.at(-1)?.timeoutMs).toBe(budgetMs);
      edge.clock.advance(budgetMs);
      expect((await readPrediction(await waiting)).outputs[0]).toMatchObject({
        tier: "edge",
        degraded: true,
      });
    }
  });
});

describe("an unavailable model store", () => {
  it("causes 503 with retry-after at a cold start, and the next request retries", async () => {
    edge.isStoreDown = true;
    const response = await edge.predict({ inputs: "yes" });
    expect(response.headers.get("retry-after")).toBe("1");
    expect(await readProblem(response)).toMatchObject({
      status: 503,
      code: "model_store_unavailable",
      retryable: true,
    });
    expect(edge.logRecords.at(-1)).toMatchObject({
      event: "request_failed",
      code: "model_store_unavailable",
    });
    edge.isStoreDown = false;
    expect((await edge.predict({ inputs: "yes" })).status).toBe(200);
  });

  it("does not affect models that the isolate knows", async () => {
    await edge.predict({ inputs: "yes" });
    edge.isStoreDown = true;
    edge.clock.advance(10 * 60_000);
    expect((await edge.predict({ inputs: "no" })).status).toBe(200);
    expect((await edge.predict({ inputs: "yes" })).status).toBe(200);
    expect(edge.failedStoreCallCount).toBe(1); // the second request does not wait for the store
  });
});

describe("a promotion", () => {
  it("serves the new version, without old results", async () => {
    await edge.predict({ inputs: "yes" });
    await publishToyModel(edge.store, new Uint8Array(toy), { version: 2 });
    edge.clock.advance(10 * 60_000);
    const response = await edge.predict({ inputs: "yes" });
    expect(response.headers.get("x-edgetier-cache")).toBe("miss");
    expect((await readPrediction(response)).version).toBe(2);
  });
});
