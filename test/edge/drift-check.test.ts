// Drift check in workerd: re-runs early exits on the last tier after the response.
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
  it("re-runs only early exits on the last tier, and counts agreements", async () => {
    expect(await predict(["yes", "no", "maybe"])).toEqual(["edge", "edge", "region"]);
    await vi.waitFor(() =>
      expect(driftCheckCounts()).toEqual([driftCheckLabels("differs"), driftCheckLabels("agrees")]),
    ); // the region answers "no" to everything
    expect(
      edge.regionRequests.map(({ inputs }) =>
        inputs.map((bytes) => new TextDecoder().decode(bytes)),
      ),
    ).toEqual([["maybe"], ["yes", "no"]]);
  });

  it("does not delay the response while the region hangs, and fails at the model's deadline", async () => {
    edge.regionBehavior = "hangs";
    expect(await predict("yes")).toEqual(["edge"]);
    await vi.waitFor(() => expect(edge.regionRequests).toHaveLength(1));
    expect(driftCheckCounts()).toEqual([]);
    edge.clock.advance(1_000);
    await vi.waitFor(() => expect(driftCheckCounts()).toEqual([driftCheckLabels("failed")]));
  });

  it("skips requests while the maximum number of checks is running", async () => {
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
});

describe("the requests of the drift check", () => {
  it("skips cached results, degraded results, and requests with maxTier", async () => {
    edge.regionBehavior = "down";
    expect(await predict("maybe")).toEqual(["edge"]);
    await predict("yes", { maxTier: "edge" });
    edge.regionBehavior = "up";
    await predict("no");
    await vi.waitFor(() => expect(driftCheckCounts()).toEqual([driftCheckLabels("agrees")]));
    await predict("no");
    await predict("yes"); // the last check; none is in flight after it
    await vi.waitFor(() =>
      expect(driftCheckCounts()).toEqual([driftCheckLabels("agrees"), driftCheckLabels("differs")]),
    );
    expect(edge.regionRequests).toHaveLength(3); // "maybe", "no", "yes"
  });

  it("checks the configured share of requests, by request id", async () => {
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
