// Report route: GET /v1/models/{model}/report in workerd returns the published report.
import { beforeEach, expect, it } from "vitest";
import { modelDetailSchema } from "../../src/protocol/model-detail.ts";
import type { ModelReport } from "../../src/protocol/model-report.ts";
import toy from "../fixtures/toy.onnx";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullDeployment } from "./full-engine.ts";
import { readProblem } from "./read-problem.ts";

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

it("returns the report that the model's metadata links", async () => {
  const detail = modelDetailSchema.parse(await (await get("/v1/models/toy")).json());
  expect(detail.report).toBe(PATH);
  const response = await get(PATH);
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("application/json");
  expect(await response.json()).toEqual(report);
  const etag = response.headers.get("etag") ?? "";
  expect((await get(PATH, { "if-none-match": etag })).status).toBe(304);
  expect((await get(PATH, { "if-none-match": '"other"' })).status).toBe(200);
});

it("answers 404 for a version without a report", async () => {
  expect(modelDetailSchema.parse(await (await get("/v1/models/toy@1")).json())).not.toHaveProperty(
    "report",
  );
  const response = await get("/v1/models/toy@1/report");
  expect(await readProblem(response)).toMatchObject({ status: 404, code: "no_report" });
  expect((await get("/v1/models/none/report")).status).toBe(404);
});
