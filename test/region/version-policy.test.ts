// Which versions a region loads, which it loads by itself, and when one that was superseded goes.
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { parseModelRef } from "../../src/registry/model-ref.ts";
import type { ModelConfig } from "../../src/region/server/models-config.ts";
import { createRegion, post, publish, type Region, textBody } from "./world.ts";

const IDLE_MS = 60_000;
let clock: ManualClock;
beforeEach(() => {
  clock = new ManualClock();
});

/** Versions 1 to 4 of `mood`; `stable` is 2. */
async function regionWith(mood: Partial<ModelConfig>): Promise<Region> {
  const region = createRegion({
    clock,
    leftoverIdleMs: IDLE_MS,
    config: { models: new Map([["mood", { serving: {}, ...mood }]]) },
  });
  for (const version of [1, 2, 3, 4]) await publish(region.store, { version });
  await region.store.writeAliases("mood", { stable: 2 }, undefined);
  return region;
}

const use = async (region: Region, ref: string) =>
  (await region.repository.acquire(parseModelRef(ref))).manifest.version;
const loaded = (region: Region) =>
  region.repository
    .allLoaded()
    .map(({ manifest }) => manifest.version)
    .toSorted();
const moveStable = async (region: Region, version: number) => {
  const before = await region.store.readAliases("mood");
  await region.store.writeAliases("mood", { stable: version }, before?.etag);
  clock.advance(5_000);
};
const refused = (detail: RegExp) => ({
  code: "version_unavailable",
  status: 404,
  detail: expect.stringMatching(detail),
});

describe("all versions", () => {
  it("may be asked for, and are loaded then", async () => {
    const region = await regionWith({});
    expect(await use(region, "mood@4")).toBe(4);
    expect(await use(region, "mood@1")).toBe(1);
    expect(loaded(region)).toEqual([1, 4]);
  });
});

describe("the latest", () => {
  it("are the highest numbers, and what an alias names", async () => {
    const region = await regionWith({ versions: { latest: 1 } });
    expect(await use(region, "mood")).toBe(2);
    expect(await use(region, "mood@4")).toBe(4);
    await expect(use(region, "mood@3")).rejects.toMatchObject(
      refused(/3 of model "mood" is not available: this region serves the latest version only/),
    );
    expect((await region.repository.describe(parseModelRef("mood"))).versions).toEqual([2, 4]);
  });

  it("are answered for the others as Triton answers for a version that is not available", async () => {
    const region = await regionWith({ versions: { latest: 1 } });
    const at = async (path: string, init?: RequestInit) =>
      (await region.app.request(`/v2/models/mood/versions/3${path}`, init)).status;
    expect([
      await at("/infer", post(textBody(["good"]))),
      await at(""),
      await at("/ready"),
    ]).toEqual([404, 404, 400]);
    expect(await region.repository.index()).toContainEqual({
      name: "mood",
      version: "3",
      state: "UNAVAILABLE",
      reason: expect.stringContaining("latest version only"),
    });
    expect(loaded(region)).toEqual([]);
  });

  it("count one that was published a moment ago", async () => {
    const region = await regionWith({ versions: { latest: 1 } });
    await expect(use(region, "mood@5")).rejects.toMatchObject({ code: "version_unavailable" });
    await publish(region.store, { version: 5 });
    clock.advance(1_000);
    expect(await use(region, "mood@5")).toBe(5);
  });
});

describe("specific versions", () => {
  it("are these and no others, whatever an alias names", async () => {
    const region = await regionWith({ versions: { specific: [1, 3] } });
    expect(await use(region, "mood@1")).toBe(1);
    await expect(use(region, "mood@2")).rejects.toMatchObject(refused(/serves versions 1, 3 only/));
    expect(await use(region, "mood")).toBe(3);
    await moveStable(region, 4);
    expect(await use(region, "mood")).toBe(3);
    expect(region.events.filter(({ event }) => event === "alias_overruled")).toEqual([
      { event: "alias_overruled", model: "mood", alias: "stable", version: 2, servedVersion: 3 },
      { event: "alias_overruled", model: "mood", alias: "stable", version: 4, servedVersion: 3 },
    ]);
    await moveStable(region, 1);
    expect(await use(region, "mood")).toBe(1);
  });

  it("of which the store has none are refused", async () => {
    const region = await regionWith({ versions: { specific: [9] } });
    await expect(use(region, "mood")).rejects.toMatchObject(refused(/serves version 9 only/));
    await expect(use(region, "mood@9")).rejects.toMatchObject({ code: "version_not_found" });
  });
});

describe("a version that was superseded", () => {
  it("is answered for by its number as long as someone asks, and goes when nobody does", async () => {
    const region = await regionWith({ versions: { latest: 1 } });
    await use(region, "mood");
    await moveStable(region, 4);
    await use(region, "mood@4");
    expect(await use(region, "mood")).toBe(4);

    clock.advance(IDLE_MS / 2);
    expect(await use(region, "mood@2")).toBe(2); // an edge that has not heard yet
    clock.advance(IDLE_MS / 2);
    await turns();
    expect(loaded(region)).toEqual([2, 4]);
    clock.advance(IDLE_MS);
    await expect.poll(() => loaded(region)).toEqual([4]);
    expect(region.events.at(-1)).toEqual({ event: "model_unloaded", model: "mood", version: 2 });
    await expect(use(region, "mood@2")).rejects.toMatchObject({ code: "version_unavailable" });
  });

  it("stays while a request is in it, and while its alias has nothing better", async () => {
    const region = await regionWith({});
    await use(region, "mood");
    await use(region, "mood@3");
    const { promise: leaving, resolve: leave } = Promise.withResolvers<void>();
    const inside = region.repository.use(parseModelRef("mood@3"), () => leaving);
    await turns();
    clock.advance(IDLE_MS);
    await turns();
    clock.advance(IDLE_MS);
    await turns();
    expect(loaded(region)).toEqual([2, 3]);
    leave();
    await inside;
    clock.advance(IDLE_MS);
    await turns();
    clock.advance(IDLE_MS);
    await expect.poll(() => loaded(region)).toEqual([2]);
  });

  it("stays where it is the only one", async () => {
    const region = await regionWith({});
    await use(region, "mood@1");
    clock.advance(10 * IDLE_MS);
    await turns();
    expect(loaded(region)).toEqual([1]);
  });
});

/** Until what a timer has started is over: it reads a store in memory. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
}

describe("preloading", () => {
  const preload = async (region: Region, ...refs: string[]) =>
    await region.repository.preload(refs.map(parseModelRef));

  it("loads what is named, and what the configuration says: by alias, and by the version policy", async () => {
    const region = await regionWith({ preload: true, versions: { latest: 2 } });
    await publish(region.store, { model: "other" });
    await preload(region, "other@1");
    expect(
      region.repository
        .allLoaded()
        .map(({ manifest }) => `${manifest.model}@${manifest.version}`)
        .toSorted(),
    ).toEqual(["mood@2", "mood@3", "mood@4", "other@1"]);
  });

  it("loads all models, but those that are not to be and those of the edge", async () => {
    const region = createRegion({
      config: {
        all: { serving: {}, preload: true },
        models: new Map([["lazy", { serving: {}, preload: false }]]),
      },
    });
    for (const model of ["eager", "lazy", "edge-only", "without-alias"]) {
      await publish(region.store, {
        model,
        edit: (tier) => void (tier.place = model === "edge-only" ? "edge" : "region"),
      });
      if (model !== "without-alias")
        await region.store.writeAliases(model, { stable: 1 }, undefined);
    }
    await preload(region);
    expect(region.repository.allLoaded().map(({ manifest }) => manifest.model)).toEqual(["eager"]);
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
    const region = await regionWith({ preload: true });
    await preload(region);
    await moveStable(region, 3);
    await preload(region);
    await expect.poll(() => loaded(region)).toEqual([2, 3]);
    await region.repository.unload("mood");
    await preload(region);
    expect(loaded(region)).toEqual([]);
    expect(region.events.filter(({ event }) => event === "model_failed")).toEqual([]);
  });

  it("reports each failure once, and goes on", async () => {
    const region = await regionWith({});
    await publish(region.store, { version: 5, tiers: { heavy: "fails-when-run.onnx" } });
    await preload(region, "mood@5", "none@1", "none", "mood@canary", "mood");
    expect(loaded(region)).toEqual([2]);
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
