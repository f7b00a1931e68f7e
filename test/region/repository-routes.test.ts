// Triton's model repository extension: what is there, loading and unloading by name.
import { beforeEach, describe, expect, it, vi } from "vitest";
import {
  createRegionFixture,
  postRequest,
  publishMoodModel,
  type RegionFixture,
  createTextBody,
} from "./region-fixture.ts";

let region: RegionFixture;
beforeEach(async () => {
  region = createRegionFixture();
  await publishMoodModel(region.store);
  await publishMoodModel(region.store, { version: 2 });
  await region.store.writeAliases("mood", { stable: 2 }, undefined);
});

const callRoute = async (path: string, body = "") => {
  const response = await region.app.request(path, postRequest(body));
  const text = await response.text();
  return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
};
const readIndex = async (body = "") => (await callRoute("/v2/repository/index", body)).body;
const infer = async (version = "") =>
  (await callRoute(`/v2/models/mood${version}/infer`, createTextBody(["good"]))).status;
const indexEntry = (version: string, state: string, reason = "") => ({
  name: "mood",
  version,
  state,
  reason,
});

describe("the repository", () => {
  it("lists every version, and which are ready", async () => {
    expect(await readIndex()).toEqual([
      indexEntry("1", "UNAVAILABLE"),
      indexEntry("2", "UNAVAILABLE"),
    ]);
    expect(await callRoute("/v2/repository/models/mood/load", "{}")).toEqual({
      status: 200,
      body: {},
    });
    expect(await readIndex("{}")).toEqual([
      indexEntry("1", "UNAVAILABLE"),
      indexEntry("2", "READY"),
    ]);
    expect(await readIndex('{"ready":true}')).toEqual([indexEntry("2", "READY")]);
  });

  it("keeps an unloaded model from being loaded by requests, until it is loaded by name", async () => {
    expect(await infer()).toBe(200);
    expect(await infer("/versions/1")).toBe(200);
    expect(await callRoute("/v2/repository/models/mood/unload")).toEqual({ status: 200, body: {} });
    expect([await infer(), await infer("/versions/1")]).toEqual([404, 404]);
    expect((await region.app.request("/v2/models/mood/ready")).status).toBe(400);
    expect(await readIndex()).toEqual([
      indexEntry("1", "UNAVAILABLE", "unloaded"),
      indexEntry("2", "UNAVAILABLE", "unloaded"),
    ]);
    expect(region.events.filter(({ event }) => event === "model_unloaded")).toHaveLength(2);
    expect((await callRoute("/v2/repository/models/mood/unload")).status).toBe(200); // again: no harm
    await callRoute("/v2/repository/models/mood/load");
    expect([await infer(), await infer("/versions/1")]).toEqual([200, 200]);
  });

  it("answers requests that were under way when their model was unloaded", async () => {
    await infer();
    const model = await region.repository.getModel({
      model: "mood",
      target: { kind: "alias", alias: "stable" },
    });
    const run = vi.spyOn(model.tiers[0].session, "run");
    const dispose = vi.spyOn(model.tiers[0].session, "dispose");
    const asked = Array.from({ length: 10 }, () => infer());
    await vi.waitFor(() => expect(run).toHaveBeenCalled()); // one runs, the others wait for their turn
    expect((await callRoute("/v2/repository/models/mood/unload")).status).toBe(200);
    expect(await Promise.all(asked)).toEqual(Array.from({ length: 10 }, () => 200));
    expect(dispose).toHaveBeenCalledOnce(); // with the last of them
  });

  it("goes on with the version before one that cannot be loaded, and says why", async () => {
    await infer();
    await publishMoodModel(region.store, { version: 3, tiers: { heavy: "fails-when-run.onnx" } });
    const before = await region.store.readAliases("mood");
    await region.store.writeAliases("mood", { stable: 3 }, before?.etag);
    expect((await callRoute("/v2/repository/models/mood/load")).status).toBeGreaterThanOrEqual(400);
    expect((await readIndex()).at(-1)).toMatchObject({
      version: "3",
      state: "UNAVAILABLE",
      reason: expect.stringContaining("graph has no input"),
    });
    expect(await infer()).toBe(200);
  });

  it("answers every request while versions come and go", async () => {
    const statuses: number[] = [];
    const over = new AbortController();
    const asking = Array.from({ length: 4 }, async () => {
      while (!over.signal.aborted) statuses.push(await infer());
    });
    for (let version = 3; version <= 12; version++) {
      await publishMoodModel(region.store, {
        version,
        tiers: { heavy: version % 4 === 0 ? "fails-when-run.onnx" : "bag-of-tokens.onnx" },
      });
      const before = await region.store.readAliases("mood");
      await region.store.writeAliases("mood", { stable: version }, before?.etag);
      expect((await callRoute("/v2/repository/models/mood/load")).status).toBe(
        version % 4 === 0 ? 503 : 200,
      );
    }
    over.abort();
    await Promise.all(asking);
    expect(statuses.length).toBeGreaterThan(20);
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect((await readIndex('{"ready":true}')).at(-1)).toEqual(indexEntry("11", "READY"));
  });

  it.each([
    [
      "an unknown model to load",
      "/v2/repository/models/other/load",
      "",
      400,
      /failed to load 'other'/,
    ],
    [
      "an unknown model to unload",
      "/v2/repository/models/other/unload",
      "",
      400,
      /unknown model: 'other'/,
    ],
    ["a name that is none", "/v2/repository/models/..%2f/load", "", 400, /unknown model/],
    ["a broken body", "/v2/repository/index", "{", 400, /failed to parse the request JSON/],
    [
      "a configuration to load with",
      "/v2/repository/models/mood/load",
      '{"parameters":{"config":"{}"}}',
      501,
      /'config' is not supported/,
    ],
    [
      "files to load with",
      "/v2/repository/models/mood/load",
      '{"parameters":{"file:1/model.onnx":"QUJD"}}',
      501,
      /'file:1\/model.onnx' is not supported/,
    ],
    ["a wrong option", "/v2/repository/index", '{"ready":1}', 400, /ready/],
  ])("refuses %s", async (_what, path, body, status, error) => {
    expect(await callRoute(path, body)).toMatchObject({
      status,
      body: { error: expect.stringMatching(error) },
    });
  });
});
