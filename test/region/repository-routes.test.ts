// Triton's model repository extension: index, load and unload by name.
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
const inferBoth = async () => ({ alias: await infer(), version: await infer("/versions/1") });
const indexEntry = (version: string, state: string, reason = "") => ({
  name: "mood",
  version,
  state,
  reason,
});

describe("the repository routes", () => {
  it("list every version and its state", async () => {
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

  it("keep an unloaded model unavailable until it is loaded by name", async () => {
    expect(await infer()).toBe(200);
    expect(await infer("/versions/1")).toBe(200);
    expect(await callRoute("/v2/repository/models/mood/unload")).toEqual({ status: 200, body: {} });
    expect(await inferBoth()).toEqual({ alias: 404, version: 404 });
    expect((await region.app.request("/v2/models/mood/ready")).status).toBe(400);
    expect(await readIndex()).toEqual([
      indexEntry("1", "UNAVAILABLE", "unloaded"),
      indexEntry("2", "UNAVAILABLE", "unloaded"),
    ]);
    expect(region.events.filter(({ event }) => event === "model_unloaded")).toHaveLength(2);
    expect((await callRoute("/v2/repository/models/mood/unload")).status).toBe(200); // Unloading is idempotent.
    await callRoute("/v2/repository/models/mood/load");
    expect(await inferBoth()).toEqual({ alias: 200, version: 200 });
  });

  it("answer requests that are in flight when their model is unloaded", async () => {
    await infer();
    const model = await region.repository.getModel({
      model: "mood",
      target: { kind: "alias", alias: "stable" },
    });
    const run = vi.spyOn(model.tiers[0].session, "run");
    const dispose = vi.spyOn(model.tiers[0].session, "dispose");
    const pending = Array.from({ length: 10 }, () => infer());
    await vi.waitFor(() => expect(run).toHaveBeenCalled()); // One runs, the others are queued.
    expect((await callRoute("/v2/repository/models/mood/unload")).status).toBe(200);
    expect(await Promise.all(pending)).toEqual(Array.from({ length: 10 }, () => 200));
    expect(dispose).toHaveBeenCalledOnce(); // The last request disposes of the session.
  });
});

describe("the repository with changing versions", () => {
  it("serves the previous version if the new one cannot be loaded, and reports the reason", async () => {
    await infer();
    await publishMoodModel(region.store, { version: 3, tiers: { heavy: "fails-when-run.onnx" } });
    const before = await region.store.readAliases("mood");
    await region.store.writeAliases("mood", { stable: 3 }, before?.etag);
    expect((await callRoute("/v2/repository/models/mood/load")).status).toBeGreaterThanOrEqual(400);
    expect((await readIndex()).at(-1)).toMatchObject({
      version: "3",
      state: "UNAVAILABLE",
      reason: expect.stringMatching(/input_ids|attention_mask/),
    });
    expect(await infer()).toBe(200);
  });

  it("answers every request while versions are added", async () => {
    const statuses: number[] = [];
    const finished = new AbortController();
    const clients = Array.from({ length: 4 }, async () => {
      while (!finished.signal.aborted) statuses.push(await infer());
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
    finished.abort();
    await Promise.all(clients);
    expect(statuses.length).toBeGreaterThan(20);
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect((await readIndex('{"ready":true}')).at(-1)).toEqual(indexEntry("11", "READY"));
  });
});

describe("the repository routes with invalid requests", () => {
  it.each([
    [
      "a load of an unknown model",
      "/v2/repository/models/other/load",
      "",
      400,
      /failed to load 'other'/,
    ],
    [
      "an unload of an unknown model",
      "/v2/repository/models/other/unload",
      "",
      400,
      /unknown model: 'other'/,
    ],
    ["an invalid name", "/v2/repository/models/..%2f/load", "", 400, /unknown model/],
    ["a malformed body", "/v2/repository/index", "{", 400, /failed to parse the request JSON/],
    [
      "a load with a configuration",
      "/v2/repository/models/mood/load",
      '{"parameters":{"config":"{}"}}',
      501,
      /'config' is not supported/,
    ],
    [
      "a load with files",
      "/v2/repository/models/mood/load",
      '{"parameters":{"file:1/model.onnx":"QUJD"}}',
      501,
      /'file:1\/model.onnx' is not supported/,
    ],
    ["an invalid option", "/v2/repository/index", '{"ready":1}', 400, /ready/],
  ])("reject %s", async (_title, path, body, status, error) => {
    expect(await callRoute(path, body)).toMatchObject({
      status,
      body: { error: expect.stringMatching(error) },
    });
  });
});
