// GET /v1/models/{model}/report inside workerd: what was published, as it was published.
import { beforeEach, expect, it } from "vitest";
import type { ModelReport } from "../../src/protocol/model-report.ts";
import { modelDetailSchema } from "../../src/protocol/model-detail.ts";
import toy from "../fixtures/toy.onnx";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullDeployment } from "./full-engine.ts";

const report: ModelReport = {
  schemaVersion: 1,
  model: "toy",
  tested: 10,
  tiers: [
    { id: "edge", place: "edge", digest: "ab", accuracy: 1, expectedCalibrationError: 0, bins: [] },
  ],
  points: [],
};
const PATH = "/v1/models/toy@2/report";

let edge: EdgeUnderTest;
beforeEach(async () => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment);
  const { ref } = await edge.store.writeArtifact(new TextEncoder().encode(JSON.stringify(report)));
  await publishToyModel(edge.store, new Uint8Array(toy), { version: 2, report: ref });
});

const get = async (path: string, headers: Record<string, string> = {}) =>
  await edge.app.request(path, { headers });

it("answers with the version's, which the model's description leads to", async () => {
  const detail = modelDetailSchema.parse(await (await get("/v1/models/toy")).json());
  expect(detail.report).toBe(PATH);
  const response = await get(PATH);
  expect([response.status, response.headers.get("content-type")]).toEqual([
    200,
    "application/json",
  ]);
  expect(await response.json()).toEqual(report);
  const etag = response.headers.get("etag") ?? "";
  expect((await get(PATH, { "if-none-match": etag })).status).toBe(304);
  expect((await get(PATH, { "if-none-match": '"other"' })).status).toBe(200);
});

it("says what makes one where a version has none", async () => {
  expect(modelDetailSchema.parse(await (await get("/v1/models/toy@1")).json())).not.toHaveProperty(
    "report",
  );
  const response = await get("/v1/models/toy@1/report");
  expect(response.status).toBe(404);
  expect(await response.json()).toMatchObject({
    code: "no_report",
    remedy: expect.stringContaining("edgetier model calibrate"),
  });
  expect((await get("/v1/models/none/report")).status).toBe(404);
});
