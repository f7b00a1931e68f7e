// Inside workerd: early exits that are asked of the last tier again, after the response.
import { beforeEach, describe, expect, it, vi } from "vitest";
import { predictResponseSchema } from "../../src/protocol/predict.ts";
import { hashToFraction } from "../../src/serving/canary.ts";
import toy from "../fixtures/toy.onnx";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { fullDeployment } from "./full-engine.ts";

const start = async (driftShare: number) =>
  await startEdgeUnderTest(new Uint8Array(toy), fullDeployment, { driftShare });

let edge: EdgeUnderTest;
beforeEach(async () => {
  edge = await start(1);
});

const driftCheckCounts = () => edge.readCountedLabels("edgetier_drift_checks_total");
const driftCheckLabels = (result: string) => ({ model: "toy", version: "1", tier: "edge", result });

async function predict(
  inputs: string | string[],
  parameters: object = {},
  headers: Record<string, string> = {},
): Promise<string[]> {
  const response = await edge.predict({ inputs, parameters }, headers);
  expect(response.status, await response.clone().text()).toBe(200);
  return predictResponseSchema.parse(await response.json()).outputs.map(({ tier }) => tier);
}

describe("the drift check", () => {
  it("asks the last tier about early exits only, and counts whether it agrees", async () => {
    expect(await predict(["yes", "no", "maybe"])).toEqual(["edge", "edge", "region"]);
    await vi.waitFor(() =>
      expect(driftCheckCounts()).toEqual([driftCheckLabels("differs"), driftCheckLabels("agrees")]),
    ); // the region says no to everything
    expect(
      edge.regionRequests.map(({ inputs }) =>
        inputs.map((bytes) => new TextDecoder().decode(bytes)),
      ),
    ).toEqual([["maybe"], ["yes", "no"]]);
  });

  it("keeps nobody waiting: the answer is there while the region still hangs, and the check fails at the model's deadline", async () => {
    edge.regionBehavior = "hangs";
    expect(await predict("yes")).toEqual(["edge"]);
    await vi.waitFor(() => expect(edge.regionRequests).toHaveLength(1));
    expect(driftCheckCounts()).toEqual([]);
    edge.clock.advance(1_000);
    await vi.waitFor(() => expect(driftCheckCounts()).toEqual([driftCheckLabels("failed")]));
  });

  it("leaves requests out while as many as may be are being checked", async () => {
    edge.regionBehavior = "hangs";
    await predict("yes");
    await vi.waitFor(() => expect(edge.regionRequests).toHaveLength(1));
    await predict("no");
    edge.regionBehavior = "up";
    edge.clock.advance(1_000);
    await vi.waitFor(() => expect(driftCheckCounts()).toEqual([driftCheckLabels("failed")]));
    await predict("no", { cache: "bypass" });
    await vi.waitFor(() =>
      expect(driftCheckCounts()).toEqual([driftCheckLabels("failed"), driftCheckLabels("agrees")]),
    );
    expect(edge.regionRequests).toHaveLength(2);
  });

  it("leaves out what came from a cache, what is degraded, and what was asked of a tier by name", async () => {
    edge.regionBehavior = "down";
    expect(await predict("maybe")).toEqual(["edge"]);
    await predict("yes", { maxTier: "edge" });
    edge.regionBehavior = "up";
    await predict("no");
    await vi.waitFor(() => expect(driftCheckCounts()).toEqual([driftCheckLabels("agrees")]));
    await predict("no");
    await predict("yes"); // the last one, and after it nothing is under way
    await vi.waitFor(() =>
      expect(driftCheckCounts()).toEqual([driftCheckLabels("agrees"), driftCheckLabels("differs")]),
    );
    expect(edge.regionRequests).toHaveLength(3); // "maybe", "no", "yes"
  });

  it("takes the share that it is given, by the request's id", async () => {
    edge = await start(0.5);
    const checked: string[] = [];
    for (const id of Array.from({ length: 40 }, (_, index) => `r-${index}`)) {
      if ((await hashToFraction(`drift toy ${id}`)) < 0.5) checked.push(id);
      await predict("no", { cache: "bypass" }, { "x-request-id": id });
      await vi.waitFor(() => expect(driftCheckCounts()).toHaveLength(checked.length));
    }
    expect(edge.regionRequests.map(({ requestId }) => requestId)).toEqual(checked);
    expect(checked.length).toBeGreaterThan(8);
    expect(checked.length).toBeLessThan(32);
  });

  it("is off by default", async () => {
    edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment);
    await predict("yes");
    await predict("maybe");
    expect(edge.regionRequests).toHaveLength(1);
  });
});
