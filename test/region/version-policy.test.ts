// Version policy: the versions that a region serves, preloads, and unloads after they are superseded.
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import type { OperatorModelConfig } from "../../src/region/server/operator-config.ts";
import { parseModelRef } from "../../src/registry/model-ref.ts";
import {
  createRegionFixture,
  postRequest,
  publishMoodModel,
  type RegionFixture,
  createTextBody,
} from "./region-fixture.ts";

const IDLE_MS = 60_000;
let clock: ManualClock;
beforeEach(() => {
  clock = new ManualClock();
});

/** Versions 1 to 4 of `mood`; `stable` is 2. */
async function createRegionWithPolicy(mood: Partial<OperatorModelConfig>): Promise<RegionFixture> {
  const region = createRegionFixture({
    clock,
    staleVersionIdleMs: IDLE_MS,
    operatorConfig: { models: new Map([["mood", { serving: {}, ...mood }]]) },
  });
  for (const version of [1, 2, 3, 4]) await publishMoodModel(region.store, { version });
  await region.store.writeAliases("mood", { stable: 2 }, undefined);
  return region;
}

const getServedVersion = async (region: RegionFixture, ref: string) =>
  (await region.repository.getModel(parseModelRef(ref))).manifest.version;
const listLoadedVersions = (region: RegionFixture) =>
  region.repository
    .listLoaded()
    .map(({ manifest }) => manifest.version)
    .toSorted();
const moveStableAlias = async (region: RegionFixture, version: number) => {
  const before = await region.store.readAliases("mood");
  await region.store.writeAliases("mood", { stable: version }, before?.etag);
  clock.advance(5_000);
};
const rejectedError = (detail: RegExp) => ({
  code: "version_unavailable",
  status: 404,
  detail: expect.stringMatching(detail),
});

describe("all versions", () => {
  it("are loaded on the first request", async () => {
    const region = await createRegionWithPolicy({});
    expect(await getServedVersion(region, "mood@4")).toBe(4);
    expect(await getServedVersion(region, "mood@1")).toBe(1);
    expect(listLoadedVersions(region)).toEqual([1, 4]);
  });
});

describe("the latest versions", () => {
  it("are the highest numbers, and the versions of aliases", async () => {
    const region = await createRegionWithPolicy({ versionPolicy: { latest: 1 } });
    expect(await getServedVersion(region, "mood")).toBe(2);
    expect(await getServedVersion(region, "mood@4")).toBe(4);
    await expect(getServedVersion(region, "mood@3")).rejects.toMatchObject(
      rejectedError(/\b3\b.*"mood"/),
    );
    expect((await region.repository.describe(parseModelRef("mood"))).versions).toEqual([2, 4]);
  });

  it("are the only ones: others get Triton's statuses for an unavailable version", async () => {
    const region = await createRegionWithPolicy({ versionPolicy: { latest: 1 } });
    const statusOf = async (path: string, init?: RequestInit) =>
      (await region.app.request(`/v2/models/mood/versions/3${path}`, init)).status;
    expect({
      infer: await statusOf("/infer", postRequest(createTextBody(["good"]))),
      metadata: await statusOf(""),
      ready: await statusOf("/ready"),
    }).toEqual({ infer: 404, metadata: 404, ready: 400 });
    expect(await region.repository.listIndex()).toContainEqual({
      name: "mood",
      version: "3",
      state: "UNAVAILABLE",
      reason: expect.stringContaining("latest"),
    });
    expect(listLoadedVersions(region)).toEqual([]);
  });

  it("include a version that was just published", async () => {
    const region = await createRegionWithPolicy({ versionPolicy: { latest: 1 } });
    await expect(getServedVersion(region, "mood@5")).rejects.toMatchObject({
      code: "version_unavailable",
    });
    await publishMoodModel(region.store, { version: 5 });
    clock.advance(1_000);
    expect(await getServedVersion(region, "mood@5")).toBe(5);
  });
});

describe("specific versions", () => {
  it("are the only ones, even if an alias refers to another version", async () => {
    const region = await createRegionWithPolicy({ versionPolicy: { specific: [1, 3] } });
    expect(await getServedVersion(region, "mood@1")).toBe(1);
    await expect(getServedVersion(region, "mood@2")).rejects.toMatchObject(
      rejectedError(/\b1, 3\b/),
    );
    expect(await getServedVersion(region, "mood")).toBe(3);
    await moveStableAlias(region, 4);
    expect(await getServedVersion(region, "mood")).toBe(3);
    expect(region.events.filter(({ event }) => event === "alias_overruled")).toEqual([
      { event: "alias_overruled", model: "mood", alias: "stable", version: 2, servedVersion: 3 },
      { event: "alias_overruled", model: "mood", alias: "stable", version: 4, servedVersion: 3 },
    ]);
    await moveStableAlias(region, 1);
    expect(await getServedVersion(region, "mood")).toBe(1);
  });

  it("are rejected if the store has none of them", async () => {
    const region = await createRegionWithPolicy({ versionPolicy: { specific: [9] } });
    await expect(getServedVersion(region, "mood")).rejects.toMatchObject(rejectedError(/\b9\b/));
    await expect(getServedVersion(region, "mood@9")).rejects.toMatchObject({
      code: "version_not_found",
    });
  });
});

describe("a superseded version", () => {
  it("is served by number while it has requests, and unloaded once it is idle", async () => {
    const region = await createRegionWithPolicy({ versionPolicy: { latest: 1 } });
    await getServedVersion(region, "mood");
    await moveStableAlias(region, 4);
    await getServedVersion(region, "mood@4");
    expect(await getServedVersion(region, "mood")).toBe(4);

    clock.advance(IDLE_MS / 2);
    expect(await getServedVersion(region, "mood@2")).toBe(2); // A request from an edge with an older alias.
    clock.advance(IDLE_MS / 2);
    await flushEventLoop();
    expect(listLoadedVersions(region)).toEqual([2, 4]);
    clock.advance(IDLE_MS);
    await expect.poll(() => listLoadedVersions(region)).toEqual([4]);
    expect(region.events.at(-1)).toEqual({ event: "model_unloaded", model: "mood", version: 2 });
    await expect(getServedVersion(region, "mood@2")).rejects.toMatchObject({
      code: "version_unavailable",
    });
  });

  it("stays loaded while it has a request in flight, and while its alias refers to it", async () => {
    const region = await createRegionWithPolicy({});
    await getServedVersion(region, "mood");
    await getServedVersion(region, "mood@3");
    const { promise: requestEnd, resolve: endRequest } = Promise.withResolvers<void>();
    const inFlight = region.repository.withModel(parseModelRef("mood@3"), () => requestEnd);
    await flushEventLoop();
    clock.advance(IDLE_MS);
    await flushEventLoop();
    clock.advance(IDLE_MS);
    await flushEventLoop();
    expect(listLoadedVersions(region)).toEqual([2, 3]);
    endRequest();
    await inFlight;
    clock.advance(IDLE_MS);
    await flushEventLoop();
    clock.advance(IDLE_MS);
    await expect.poll(() => listLoadedVersions(region)).toEqual([2]);
  });

  it("stays loaded if it is the only one", async () => {
    const region = await createRegionWithPolicy({});
    await getServedVersion(region, "mood@1");
    clock.advance(10 * IDLE_MS);
    await flushEventLoop();
    expect(listLoadedVersions(region)).toEqual([1]);
  });
});

/** Waits for work that a timer has started; its store is in memory. */
async function flushEventLoop(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
}

const preload = async (region: RegionFixture, ...refs: string[]) =>
  await region.repository.preload(refs.map(parseModelRef));

describe("preloading", () => {
  it("loads the named versions, and the configured ones: by alias, and by the version policy", async () => {
    const region = await createRegionWithPolicy({ preload: true, versionPolicy: { latest: 2 } });
    await publishMoodModel(region.store, { model: "other" });
    await preload(region, "other@1");
    expect(
      region.repository
        .listLoaded()
        .map(({ manifest }) => `${manifest.model}@${manifest.version}`)
        .toSorted(),
    ).toEqual(["mood@2", "mood@3", "mood@4", "other@1"]);
  });

  it("loads all models except excluded ones and those of the edge", async () => {
    const region = createRegionFixture({
      operatorConfig: {
        allModels: { serving: {}, preload: true },
        models: new Map([["lazy", { serving: {}, preload: false }]]),
      },
    });
    for (const model of ["eager", "lazy", "edge-only", "without-alias"]) {
      await publishMoodModel(region.store, {
        model,
        edit: (tier) => void (tier.place = model === "edge-only" ? "edge" : "region"),
      });
      if (model !== "without-alias")
        await region.store.writeAliases(model, { stable: 1 }, undefined);
    }
    await preload(region);
    expect(region.repository.listLoaded().map(({ manifest }) => manifest.model)).toEqual(["eager"]);
    expect(region.events.filter(({ event }) => event === "model_failed")).toEqual([
      {
        event: "model_failed",
        model: "without-alias",
        version: undefined,
        error: expect.objectContaining({ code: "alias_not_found" }),
      },
    ]);
  });
});

describe("repeated and failing preloading", () => {
  it("loads the new version of an alias, and no unloaded model", async () => {
    const region = await createRegionWithPolicy({ preload: true });
    await preload(region);
    await moveStableAlias(region, 3);
    await preload(region);
    await expect.poll(() => listLoadedVersions(region)).toEqual([2, 3]);
    await region.repository.unload("mood");
    await preload(region);
    expect(listLoadedVersions(region)).toEqual([]);
    expect(region.events.filter(({ event }) => event === "model_failed")).toEqual([]);
  });

  it("reports each failure once, and continues", async () => {
    const region = await createRegionWithPolicy({});
    await publishMoodModel(region.store, { version: 5, tiers: { heavy: "fails-when-run.onnx" } });
    await preload(region, "mood@5", "none@1", "none", "mood@canary", "mood");
    expect(listLoadedVersions(region)).toEqual([2]);
    const failures = region.events.flatMap((event) =>
      event.event === "model_failed"
        ? [`${event.model}@${event.version}: ${(event.error as { code: string }).code}`]
        : [],
    );
    expect(failures.toSorted()).toEqual([
      "mood@5: manifest_invalid",
      "mood@undefined: alias_not_found",
      "none@1: model_not_found",
      "none@undefined: model_not_found",
    ]);
  });
});
