// Which versions a region loads, which it loads by itself, and when one that was superseded goes.
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { parseModelRef } from "../../src/registry/model-ref.ts";
import type { OperatorModelConfig } from "../../src/region/server/operator-config.ts";
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
  it("may be asked for, and are loaded then", async () => {
    const region = await createRegionWithPolicy({});
    expect(await getServedVersion(region, "mood@4")).toBe(4);
    expect(await getServedVersion(region, "mood@1")).toBe(1);
    expect(listLoadedVersions(region)).toEqual([1, 4]);
  });
});

describe("the latest", () => {
  it("are the highest numbers, and what an alias names", async () => {
    const region = await createRegionWithPolicy({ versionPolicy: { latest: 1 } });
    expect(await getServedVersion(region, "mood")).toBe(2);
    expect(await getServedVersion(region, "mood@4")).toBe(4);
    await expect(getServedVersion(region, "mood@3")).rejects.toMatchObject(
      rejectedError(
        /3 of model "mood" is not available: this region serves the latest version only/,
      ),
    );
    expect((await region.repository.describe(parseModelRef("mood"))).versions).toEqual([2, 4]);
  });

  it("are answered for the others as Triton answers for a version that is not available", async () => {
    const region = await createRegionWithPolicy({ versionPolicy: { latest: 1 } });
    const at = async (path: string, init?: RequestInit) =>
      (await region.app.request(`/v2/models/mood/versions/3${path}`, init)).status;
    expect([
      await at("/infer", postRequest(createTextBody(["good"]))),
      await at(""),
      await at("/ready"),
    ]).toEqual([404, 404, 400]);
    expect(await region.repository.listIndex()).toContainEqual({
      name: "mood",
      version: "3",
      state: "UNAVAILABLE",
      reason: expect.stringContaining("latest version only"),
    });
    expect(listLoadedVersions(region)).toEqual([]);
  });

  it("count one that was published a moment ago", async () => {
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
  it("are these and no others, whatever an alias names", async () => {
    const region = await createRegionWithPolicy({ versionPolicy: { specific: [1, 3] } });
    expect(await getServedVersion(region, "mood@1")).toBe(1);
    await expect(getServedVersion(region, "mood@2")).rejects.toMatchObject(
      rejectedError(/serves versions 1, 3 only/),
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

  it("of which the store has none are refused", async () => {
    const region = await createRegionWithPolicy({ versionPolicy: { specific: [9] } });
    await expect(getServedVersion(region, "mood")).rejects.toMatchObject(
      rejectedError(/serves version 9 only/),
    );
    await expect(getServedVersion(region, "mood@9")).rejects.toMatchObject({
      code: "version_not_found",
    });
  });
});

describe("a version that was superseded", () => {
  it("is answered for by its number as long as someone asks, and goes when nobody does", async () => {
    const region = await createRegionWithPolicy({ versionPolicy: { latest: 1 } });
    await getServedVersion(region, "mood");
    await moveStableAlias(region, 4);
    await getServedVersion(region, "mood@4");
    expect(await getServedVersion(region, "mood")).toBe(4);

    clock.advance(IDLE_MS / 2);
    expect(await getServedVersion(region, "mood@2")).toBe(2); // an edge that has not heard yet
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

  it("stays while a request is in it, and while its alias has nothing better", async () => {
    const region = await createRegionWithPolicy({});
    await getServedVersion(region, "mood");
    await getServedVersion(region, "mood@3");
    const { promise: leaving, resolve: leave } = Promise.withResolvers<void>();
    const inside = region.repository.withModel(parseModelRef("mood@3"), () => leaving);
    await flushEventLoop();
    clock.advance(IDLE_MS);
    await flushEventLoop();
    clock.advance(IDLE_MS);
    await flushEventLoop();
    expect(listLoadedVersions(region)).toEqual([2, 3]);
    leave();
    await inside;
    clock.advance(IDLE_MS);
    await flushEventLoop();
    clock.advance(IDLE_MS);
    await expect.poll(() => listLoadedVersions(region)).toEqual([2]);
  });

  it("stays where it is the only one", async () => {
    const region = await createRegionWithPolicy({});
    await getServedVersion(region, "mood@1");
    clock.advance(10 * IDLE_MS);
    await flushEventLoop();
    expect(listLoadedVersions(region)).toEqual([1]);
  });
});

/** Until what a timer has started is over: it reads a store in memory. */
async function flushEventLoop(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
}

describe("preloading", () => {
  const preload = async (region: RegionFixture, ...refs: string[]) =>
    await region.repository.preload(refs.map(parseModelRef));

  it("loads what is named, and what the configuration says: by alias, and by the version policy", async () => {
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

  it("loads all models, but those that are not to be and those of the edge", async () => {
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

  it("again finds what an alias names since, and leaves alone what was unloaded", async () => {
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

  it("reports each failure once, and goes on", async () => {
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
