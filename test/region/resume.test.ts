// Resuming region tiers: the region continues an edge tier from its activation, with the remaining part of the graph.
import { describe, expect, it } from "vitest";
import { createInProcessRegionClient } from "../../src/region/drivers/in-process.ts";
import { createExecutor } from "../../src/region/server/batching/create-executor.ts";
import type { BatchRun } from "../../src/region/server/executor.ts";
import { publishColorModel } from "../support/color-model.ts";
import { sampleImage } from "../support/sample-images.ts";
import { publishStagedModel } from "../support/staged-model.ts";
import {
  createCountingRuntime,
  createRegionFixture,
  type RegionFixture,
  type RegionFixtureOptions,
} from "./region-fixture.ts";

const call = { model: "staged", version: 1, tier: "region", requestId: "r", timeoutMs: 10_000 };
const createActivation = (...values: readonly number[]) => ({
  activation: {
    datatype: "UINT8" as const,
    shape: [values.length / 3, 3, 1, 1],
    data: Uint8Array.from(values),
  },
});

async function startRegion(options: RegionFixtureOptions = {}): Promise<RegionFixture> {
  const region = createRegionFixture(options);
  await publishStagedModel(region.store, { deadlineMs: 10_000 });
  return region;
}
const createClient = (region: RegionFixture) => createInProcessRegionClient(region.app.fetch);

describe("a region tier that resumes", () => {
  it("computes the outputs of the whole graph from the activation, row by row", async () => {
    const client = createClient(await startRegion());
    const { logits } = await client.resume({
      ...call,
      tensors: createActivation(255, 128, 1, 128, 128, 255),
      rows: 2,
    });
    expect(logits?.shape).toEqual([2, 3]);
    expect(logits?.datatype === "FP32" ? [...logits.data] : []).toEqual(
      [8, 0, -8, 0, 0, 8].map((value) => expect.closeTo(value, 5)),
    );
    expect(
      (await client.infer({ ...call, inputs: [sampleImage("jpeg, red").file] }))["logits"]?.shape,
    ).toEqual([1, 3]);
  });

  it("rejects another shape, another datatype and another tensor", async () => {
    const client = createClient(await startRegion());
    const wrong = [
      { activation: { datatype: "UINT8" as const, shape: [1, 4, 1, 1], data: new Uint8Array(4) } },
      { activation: { datatype: "FP32" as const, shape: [1, 3, 1, 1], data: new Float32Array(3) } },
      { other: { datatype: "UINT8" as const, shape: [1, 3, 1, 1], data: new Uint8Array(3) } },
    ];
    for (const tensors of wrong)
      await expect(client.resume({ ...call, tensors, rows: 1 })).rejects.toMatchObject({
        code: "region_refused",
        detail: expect.stringContaining("400"),
      });
  });
});

describe("the batching of resumed requests", () => {
  it("merges resumed requests into one run, separate from requests with inputs", async () => {
    const runs: BatchRun[] = [];
    const executor = createExecutor({
      defaultBatching: { mode: "fixed", maxQueueDelayUs: 50_000, preferredBatchRows: [4] },
      onRun: (run) => runs.push(run),
    });
    const client = createClient(await startRegion({ executor }));
    await client.infer({ ...call, inputs: [sampleImage("jpeg, grey").file] }); // Loads the model.
    runs.length = 0;
    await Promise.all([
      ...[0, 1, 2, 3].map(() =>
        client.resume({ ...call, tensors: createActivation(1, 2, 3), rows: 1 }),
      ),
      client.infer({ ...call, inputs: [sampleImage("jpeg, grey").file] }),
    ]);
    expect(
      runs
        .filter(({ tier }) => tier.tier === "region/edge")
        .reduce((sum, { rows }) => sum + rows, 0),
    ).toBe(4);
    expect(runs.filter(({ tier }) => tier.tier === "region").map(({ rows }) => rows)).toEqual([1]);
    expect(
      Math.max(
        ...runs
          .filter(({ tier }) => tier.tier === "region/edge")
          .map(({ requestCount }) => requestCount),
      ),
    ).toBeGreaterThan(1);
  });
});

describe("the sessions of a region tier that resumes", () => {
  it("are both warmed up before the model is ready, and both disposed of", async () => {
    const { counts, runtime } = createCountingRuntime();
    const { repository, app } = await startRegion({ runtime });
    expect(
      (await app.request("/v2/repository/models/staged/load", { method: "POST" })).status,
    ).toBe(200);
    expect(counts).toEqual({ sessions: 2, runs: 2, disposed: 0 });
    expect(
      (await app.request("/v2/repository/models/staged/unload", { method: "POST" })).status,
    ).toBe(200);
    expect(counts.disposed).toBe(2);
    expect(repository.listLoaded()).toEqual([]);
  });

  it("are reported in the model configuration", async () => {
    const { app } = await startRegion();
    const configuration: unknown = await (await app.request("/v2/models/staged/config")).json();
    expect(configuration).toMatchObject({
      edgetier: { tiers: [{ id: "region", resumes: "edge" }] },
    });
  });
});

it("rejects an activation for a tier that does not resume", async () => {
  const region = createRegionFixture();
  await publishColorModel(region.store, { deadlineMs: 10_000 });
  await expect(
    createClient(region).resume({
      ...call,
      model: "colours",
      tensors: createActivation(1, 2, 3),
      rows: 1,
    }),
  ).rejects.toMatchObject({ code: "region_refused", detail: expect.stringContaining("400") });
});
