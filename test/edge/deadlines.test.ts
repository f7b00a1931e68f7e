// Deadlines in workerd: skipped tiers, disconnected clients and saturated regions.
import { beforeEach, describe, expect, it, vi } from "vitest";
import { modelDetailSchema } from "../../src/protocol/model-detail.ts";
import { predictResponseSchema } from "../../src/protocol/predict.ts";
import toy from "../fixtures/toy.onnx";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullDeployment } from "./full-engine.ts";
import { readProblem } from "./read-problem.ts";

const REGION_P95_MS = 300;
let edge: EdgeUnderTest;

beforeEach(async () => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment);
  const { tiers } = await publishToyModel(edge.store, new Uint8Array(toy));
  const [first, last] = tiers;
  if (first === undefined || last === undefined)
    throw new Error("The toy model must have two tiers.");
  const rule = { confidence: 0.9, whenSaturated: { confidence: 0.5, epsilon: 0.05 } };
  const risk = {
    what: "disagreement",
    epsilon: 0.01,
    delta: 0.05,
    method: "test",
    samples: 100,
    empiricalRisk: 0,
  } as const;
  await publishToyModel(edge.store, new Uint8Array(toy), {
    version: 2,
    risk,
    tiers: [
      { ...first, exit: rule },
      { ...last, p95Ms: REGION_P95_MS },
    ],
  });
});

const readFirstOutput = async (response: Response) =>
  predictResponseSchema.parse(await response.json()).outputs[0];

describe("deadlines", () => {
  it("skip a region that is slower than the remaining time, as degraded", async () => {
    const response = await edge.predict(
      { inputs: "maybe" },
      { "x-deadline-ms": String(REGION_P95_MS - 1) },
    );
    expect(await readFirstOutput(response)).toMatchObject({
      tier: "edge",
      degraded: true,
      degradedBy: "deadline_too_near",
    });
    expect(edge.regionRequests).toEqual([]);
  });

  it("allow a region call if the time suffices", async () => {
    const response = await edge.predict(
      { inputs: "maybe" },
      { "x-deadline-ms": String(REGION_P95_MS) },
    );
    expect(await readFirstOutput(response)).toMatchObject({ tier: "region", degraded: false });
  });

  it("prevent caching of degraded results", async () => {
    await edge.predict({ inputs: "maybe" }, { "x-deadline-ms": "50" });
    expect(await readFirstOutput(await edge.predict({ inputs: "maybe" }))).toMatchObject({
      tier: "region",
      degraded: false,
    });
  });
});

describe("deadlines with a disconnect or saturation", () => {
  it("end when the client disconnects", async () => {
    edge.regionBehavior = "hangs";
    const client = new AbortController();
    const pending = edge.app.request("/v1/models/toy/predict?input=maybe", {
      signal: client.signal,
    });
    await vi.waitFor(() => expect(edge.regionRequests).toHaveLength(1));
    client.abort();
    const response = await pending;
    expect(await readProblem(response)).toMatchObject({ status: 499, code: "request_cancelled" });
  });

  it("yield to a saturated region: less confident answers are accepted, and not cached", async () => {
    edge.isRegionSaturated = true;
    expect(await readFirstOutput(await edge.predict({ inputs: "maybe" }))).toMatchObject({
      tier: "edge",
      degraded: true,
      degradedBy: "tier_saturated",
    });
    expect(edge.regionRequests).toEqual([]);
    edge.isRegionSaturated = false;
    expect(await readFirstOutput(await edge.predict({ inputs: "maybe" }))).toMatchObject({
      tier: "region",
      degraded: false,
    });
  });

  it("are described by the model's tiers, with the risk of its exits", async () => {
    const detail = modelDetailSchema.parse(await (await edge.app.request("/v1/models/toy")).json());
    expect(detail.tiers).toMatchObject([
      { exitConfidence: 0.9, saturatedExitConfidence: 0.5 },
      { exitConfidence: null, p95Ms: REGION_P95_MS },
    ]);
    expect(detail.tiers[0]).not.toHaveProperty("p95Ms");
    expect(detail.tiers[1]).not.toHaveProperty("saturatedExitConfidence");
    expect(detail.risk).toMatchObject({ epsilon: 0.01, delta: 0.05 });
  });
});
