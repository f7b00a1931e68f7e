// Metadata routes: models, health and the API description.
import { beforeEach, describe, expect, it } from "vitest";
import type { OpenApiDocument } from "../../src/http/openapi.ts";
import {
  modelDetailSchema,
  modelListSchema,
  readEdgeTierStatus,
} from "../../src/protocol/model-detail.ts";
import toy from "../fixtures/toy.onnx";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { publishTensorModel } from "../support/tensor-model.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullDeployment } from "./full-engine.ts";
import { graphs } from "./infer-requests.ts";

let edge: EdgeUnderTest;
beforeEach(async () => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment);
});

const get = async (path: string): Promise<unknown> => await (await edge.app.request(path)).json();

describe("GET /v1/models", () => {
  it("lists all models with their aliases", async () => {
    await publishToyModel(edge.store, new Uint8Array(toy), { model: "another" });
    expect(modelListSchema.parse(await get("/v1/models"))).toEqual({
      models: [
        { model: "another", aliases: { stable: 1 } },
        { model: "toy", aliases: { stable: 1 } },
      ],
    });
  });

  it("describes the versions, tiers and thresholds of a model", async () => {
    await publishToyModel(edge.store, new Uint8Array(toy), { version: 2, deadlineMs: 77 });
    const detail = modelDetailSchema.parse(await get("/v1/models/toy"));
    expect(detail).toMatchObject({
      model: "toy",
      version: 2,
      versions: [1, 2],
      aliases: { stable: 2 },
      deadlineMs: 77,
    });
    expect(detail.tiers).toMatchObject([
      { id: "edge", place: "edge", exitConfidence: 0.9 },
      { id: "region", place: "region", exitConfidence: null },
    ]);
    expect(modelDetailSchema.parse(await get("/v1/models/toy@1"))).toMatchObject({
      version: 1,
      deadlineMs: 1000,
    });
  });

  it("returns the weights of canaries", async () => {
    await publishToyModel(edge.store, new Uint8Array(toy), { version: 2 });
    await edge.store.writeAliases(
      "toy",
      { stable: { version: 1, previous: [2] }, canary: { version: 2, weight: 0.05 } },
      (await edge.store.readAliases("toy"))?.etag,
    );
    const aliases = { aliases: { stable: 1, canary: 2 }, weights: { canary: 0.05 } };
    expect(modelListSchema.parse(await get("/v1/models"))).toEqual({
      models: [{ model: "toy", ...aliases }],
    });
    expect(modelDetailSchema.parse(await get("/v1/models/toy"))).toMatchObject({
      version: 1,
      ...aliases,
    });
  });

  it("answers 404 for an unknown model, version or alias", async () => {
    for (const path of ["/v1/models/none", "/v1/models/toy@7", "/v1/models/toy@canary"]) {
      expect((await edge.app.request(path)).status).toBe(404);
    }
  });
});

describe("the status of an edge tier", () => {
  it("is documented as `status`, with the deprecated field `how`", async () => {
    const detail = modelDetailSchema.parse(await get("/v1/models/toy"));
    expect(detail.tiers[0]?.edge).toEqual({ status: "plain", how: "plain" });
    expect(detail.tiers[1]).not.toHaveProperty("edge");
    const { components } = (await get("/openapi.json")) as OpenApiDocument;
    expect(components.schemas["TierDetail"]).toMatchObject({
      properties: {
        edge: {
          properties: {
            status: { enum: ["bundled", "snapshot", "plain", "unsupported"] },
            how: { enum: ["bundled", "snapshot", "plain", "not"], deprecated: true },
          },
        },
      },
    });
  });

  it("is `unsupported` in `status` and `not` in `how` if the engine cannot run the tier", async () => {
    await publishTensorModel(edge.store, "strings", graphs.strings);
    const detail = modelDetailSchema.parse(await get("/v1/models/strings"));
    expect(detail.tiers[0]?.edge).toEqual({
      status: "unsupported",
      how: "not",
      reason: expect.any(String),
    });
  });

  it("is read from `how` in responses of older deployments", () => {
    expect(readEdgeTierStatus({ how: "not", reason: "why" })).toBe("unsupported");
    expect(readEdgeTierStatus({ how: "snapshot" })).toBe("snapshot");
    expect(readEdgeTierStatus({ status: "plain", how: "plain" })).toBe("plain");
  });
});

describe("the health routes", () => {
  it("are always live, and ready while the store is readable", async () => {
    const getStatus = async (path: string) => (await edge.app.request(path)).status;
    expect(await getStatus("/v2/health/live")).toBe(200);
    expect(await getStatus("/v2/health/ready")).toBe(200);
    edge.isStoreDown = true;
    expect(await getStatus("/v2/health/live")).toBe(200);
    expect(await getStatus("/v2/health/ready")).toBe(400);
  });
});

const OPENAPI_EXCERPT = {
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
};

describe("the OpenAPI document", () => {
  it("is OpenAPI 3.1 and covers every route, parameter and error", async () => {
    const document = await get("/openapi.json");
    expect(document).toMatchObject(OPENAPI_EXCERPT);
  });

  it("is rendered as a page without scripts or external resources", async () => {
    expect((await edge.app.request("/")).headers.get("location")).toBe("/docs");
    const response = await edge.app.request("/docs");
    const page = await response.text();
    expect(response.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(page).toContain("POST /v1/models/{model}/predict");
    expect(page).toContain("x-deadline-ms");
    expect(page).not.toMatch(/<script|src=|href="http/);
  });
});
