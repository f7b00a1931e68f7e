// The routes beside predict: what is served, health, and the API's description.
import { beforeEach, describe, expect, it } from "vitest";
import { modelDetailSchema, modelListSchema } from "../../src/protocol/model-detail.ts";
import toy from "../fixtures/toy.onnx";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullDeployment } from "./full-engine.ts";

let edge: EdgeUnderTest;
beforeEach(async () => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment);
});

const get = async (path: string): Promise<unknown> => await (await edge.app.request(path)).json();

describe("GET /v1/models", () => {
  it("lists every model with its aliases", async () => {
    await publishToyModel(edge.store, new Uint8Array(toy), { model: "another" });
    expect(modelListSchema.parse(await get("/v1/models"))).toEqual({
      models: [
        { model: "another", aliases: { stable: 1 } },
        { model: "toy", aliases: { stable: 1 } },
      ],
    });
  });

  it("describes one: versions, tiers and thresholds", async () => {
    await publishToyModel(edge.store, new Uint8Array(toy), { version: 2, deadlineMs: 77 });
    const detail = modelDetailSchema.parse(await get("/v1/models/toy"));
    expect(detail).toMatchObject({
      model: "toy",
      version: 2,
      versions: [1, 2],
      aliases: { stable: 2 },
      deadlineMs: 77,
    });
    expect(
      detail.tiers.map(({ id, place, exitConfidence }) => [id, place, exitConfidence]),
    ).toEqual([
      ["edge", "edge", 0.9],
      ["region", "region", null],
    ]);
    expect(modelDetailSchema.parse(await get("/v1/models/toy@1"))).toMatchObject({
      version: 1,
      deadlineMs: 1000,
    });
  });

  it("tells the shares of canaries", async () => {
    await publishToyModel(edge.store, new Uint8Array(toy), { version: 2 });
    await edge.store.writeAliases(
      "toy",
      { stable: { version: 1, previous: [2] }, canary: { version: 2, weight: 0.05 } },
      (await edge.store.readAliases("toy"))?.etag,
    );
    const told = { aliases: { stable: 1, canary: 2 }, weights: { canary: 0.05 } };
    expect(modelListSchema.parse(await get("/v1/models"))).toEqual({
      models: [{ model: "toy", ...told }],
    });
    expect(modelDetailSchema.parse(await get("/v1/models/toy"))).toMatchObject({
      version: 1,
      ...told,
    });
  });

  it("answers 404 for what is not there", async () => {
    for (const path of ["/v1/models/none", "/v1/models/toy@7", "/v1/models/toy@canary"]) {
      expect((await edge.app.request(path)).status).toBe(404);
    }
  });
});

describe("health", () => {
  it("is live always, and ready while the store can be read", async () => {
    const statuses = async () => [
      (await edge.app.request("/v2/health/live")).status,
      (await edge.app.request("/v2/health/ready")).status,
    ];
    expect(await statuses()).toEqual([200, 200]);
    edge.isStoreDown = true;
    expect(await statuses()).toEqual([200, 400]);
  });
});

describe("the API's description", () => {
  it("is OpenAPI 3.1 and covers every route, parameter and error", async () => {
    const document = await get("/openapi.json");
    expect(document).toMatchObject({
      openapi: "3.1.0",
      security: [{}, { bearer: [] }],
      paths: {
        "/v1/models/{model}/predict": {
          post: {
            operationId: "predict",
            requestBody: {
              content: {
                "application/json": {},
                "text/plain": {},
                "image/jpeg": {},
                "image/png": {},
              },
            },
            responses: {
              200: {},
              400: {},
              401: {},
              403: {},
              404: {},
              413: {},
              415: {},
              429: {},
              503: {},
              504: {},
            },
          },
          get: { operationId: "predictOne", responses: { 304: {} } },
        },
        "/v1/models": { get: {} },
        "/v1/regions": { get: { operationId: "listRegions" } },
        "/v1/models/{model}": { get: {} },
        "/v1/models/{model}/report": { get: { operationId: "getReport" } },
        "/v2": { get: {} },
        "/v2/health/live": { get: {} },
        "/v2/health/ready": { get: {} },
        "/v2/models/{model}": { get: {} },
        "/v2/models/{model}/ready": { get: {} },
        "/v2/models/{model}/infer": {
          post: {
            requestBody: { content: { "application/json": {}, "application/octet-stream": {} } },
            responses: { 200: {}, 400: {}, 401: {}, 403: {}, 404: {}, 413: {}, 429: {}, 503: {} },
          },
        },
      },
      components: {
        securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
        schemas: {
          PredictRequest: {},
          PredictParameters: {},
          PredictResponse: {},
          Problem: {},
          ModelDetail: {},
          InferRequest: {},
          Tensor: {},
        },
      },
    });
  });

  it("is a page without scripts or anything from elsewhere", async () => {
    expect((await edge.app.request("/")).headers.get("location")).toBe("/docs");
    const response = await edge.app.request("/docs");
    const page = await response.text();
    expect(response.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(page).toContain("POST /v1/models/{model}/predict");
    expect(page).toContain("x-deadline-ms");
    expect(page).not.toMatch(/<script|src=|href="http/);
  });
});
