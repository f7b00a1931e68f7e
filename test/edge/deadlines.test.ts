// Deadlines in workerd: what is left out for want of time, and what is not computed for clients that have left.
import { beforeEach, describe, expect, it, vi } from "vitest";
import { predictResponseSchema } from "../../src/protocol/predict.ts";
import { modelDetailSchema } from "../../src/protocol/model-detail.ts";
import toy from "../fixtures/toy.onnx";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullDeployment } from "./full-engine.ts";

const REGION_P95_MS = 300;
let edge: EdgeUnderTest;

beforeEach(async () => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment);
  const { tiers } = await publishToyModel(edge.store, new Uint8Array(toy));
  const [first, last] = tiers;
  if (first === undefined || last === undefined) throw new Error("the toy has two tiers");
  const rule = { confidence: 0.9, whenSaturated: { confidence: 0.5, epsilon: 0.05 } };
  const risk = {
    what: "disagreement",
    epsilon: 0.01,
    delta: 0.05,
    method: "made up",
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
  it("do not ask a region that would not answer in what is left, and mark the answer", async () => {
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

  it("ask it where there is the time", async () => {
    const response = await edge.predict(
      { inputs: "maybe" },
      { "x-deadline-ms": String(REGION_P95_MS) },
    );
    expect(await readFirstOutput(response)).toMatchObject({ tier: "region", degraded: false });
  });

  it("do not store what was left out", async () => {
    await edge.predict({ inputs: "maybe" }, { "x-deadline-ms": "50" });
    expect(await readFirstOutput(await edge.predict({ inputs: "maybe" }))).toMatchObject({
      tier: "region",
      degraded: false,
    });
  });

  it("end with the client", async () => {
    edge.regionBehavior = "hangs";
    const client = new AbortController();
    const asked = edge.app.request("/v1/models/toy/predict?input=maybe", { signal: client.signal });
    await vi.waitFor(() => expect(edge.regionRequests).toHaveLength(1));
    client.abort();
    const response = await asked;
    expect([response.status, await response.json()]).toEqual([
      499,
      expect.objectContaining({ code: "request_cancelled" }),
    ]);
  });

  it("give way to a saturated region: less sure answers are taken, within the risk that is stated, and are not stored", async () => {
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

  it("are told with the model's tiers, and with them the risk of its exits", async () => {
    const detail = modelDetailSchema.parse(await (await edge.app.request("/v1/models/toy")).json());
    expect(
      detail.tiers.map(({ p95Ms, exitConfidence, saturatedExitConfidence }) => [
        p95Ms,
        exitConfidence,
        saturatedExitConfidence,
      ]),
    ).toEqual([
      [undefined, 0.9, 0.5],
      [REGION_P95_MS, null, undefined],
    ]);
    expect(detail.risk).toMatchObject({ epsilon: 0.01, delta: 0.05 });
  });
});
