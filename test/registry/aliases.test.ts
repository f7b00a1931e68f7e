// Tests alias promotion and rollback, also against concurrent writers.
import { beforeEach, describe, expect, it } from "vitest";
import { promoteAlias, rollbackAlias, listWeightedAliases } from "../../src/registry/aliases.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import { storeLayout } from "../../src/registry/store-layout.ts";
import { sampleManifest } from "../support/sample-model.ts";
import { createTestSigningKey } from "../support/test-signing-key.ts";

let objects: ObjectStore;
let store: ModelStore;
beforeEach(async () => {
  objects = createMemoryObjectStore();
  store = createModelStore(objects);
  for (const version of [1, 2, 3, 4, 5, 6, 7, 8])
    await store.writeManifest(sampleManifest(version));
});

const versionTarget = (number: number) => ({ kind: "version", version: number }) as const;
const stableAlias = { alias: "stable" };
const readSampleAliases = async () => (await store.readAliases("sample"))?.aliases;

describe("promoteAlias", () => {
  it("returns the states before and after", async () => {
    expect(await promoteAlias(store, "sample", versionTarget(1), stableAlias)).toEqual({
      model: "sample",
      alias: "stable",
      before: null,
      after: { version: 1, weight: null, previous: [] },
    });
    expect(await promoteAlias(store, "sample", versionTarget(2), stableAlias)).toMatchObject({
      before: { version: 1 },
      after: { version: 2, previous: [1] },
    });
    expect(await readSampleAliases()).toEqual({ stable: { version: 2, previous: [1] } });
  });

  it("accepts the version of another alias", async () => {
    await promoteAlias(store, "sample", versionTarget(1), stableAlias);
    await promoteAlias(store, "sample", versionTarget(2), { alias: "canary", weight: 0.05 });
    expect(
      await promoteAlias(store, "sample", { kind: "alias", alias: "canary" }, stableAlias),
    ).toMatchObject({ after: { version: 2, weight: null } });
    expect(await readSampleAliases()).toEqual({
      stable: { version: 2, previous: [1] },
      canary: { version: 2, weight: 0.05 },
    });
  });

  it("keeps the weight until a new one is given", async () => {
    await promoteAlias(store, "sample", versionTarget(2), { alias: "canary", weight: 0.05 });
    expect(
      await promoteAlias(store, "sample", versionTarget(3), { alias: "canary" }),
    ).toMatchObject({
      after: { version: 3, weight: 0.05 },
    });
    expect(
      await promoteAlias(store, "sample", versionTarget(3), { alias: "canary", weight: 0 }),
    ).toMatchObject({ before: { weight: 0.05 }, after: { version: 3, weight: 0, previous: [2] } });
  });

  it("remembers five previous versions, without duplicates", async () => {
    for (const number of [1, 2, 3, 4, 5, 6, 7, 8, 3])
      await promoteAlias(store, "sample", versionTarget(number), stableAlias);
    expect(await readSampleAliases()).toEqual({
      stable: { version: 3, previous: [8, 7, 6, 5, 4] },
    });
  });
});

describe("promoteAlias with an invalid target", () => {
  it("rejects unknown, invalid and untrusted versions", async () => {
    await objects.put(
      storeLayout.manifest("sample", 2),
      new Uint8Array(3),
      { kind: "any" },
      "application/json",
    );
    await expect(
      promoteAlias(store, "sample", versionTarget(99), stableAlias),
    ).rejects.toMatchObject({
      code: "version_not_found",
    });
    await expect(
      promoteAlias(store, "sample", versionTarget(2), stableAlias),
    ).rejects.toMatchObject({
      code: "manifest_invalid",
    });
    await expect(
      promoteAlias(store, "sample", { kind: "alias", alias: "canary" }, stableAlias),
    ).rejects.toMatchObject({ code: "alias_not_found" });
    await expect(
      promoteAlias(store, "nothing", versionTarget(1), stableAlias),
    ).rejects.toMatchObject({
      code: "model_not_found",
    });
    const trustingStore = createModelStore(objects, {
      trustedKeys: [(await createTestSigningKey()).publicKey],
    });
    await expect(
      promoteAlias(trustingStore, "sample", versionTarget(1), stableAlias),
    ).rejects.toMatchObject({
      code: "manifest_untrusted",
    });
    expect(await readSampleAliases()).toBeUndefined();
  });

  it("does not move an alias that another writer has moved concurrently", async () => {
    await promoteAlias(store, "sample", versionTarget(1), stableAlias);
    const racingStore: ModelStore = {
      ...store,
      async readManifest(model, number) {
        await promoteAlias(store, "sample", versionTarget(3), stableAlias);
        return await store.readManifest(model, number);
      },
    };
    await expect(
      promoteAlias(racingStore, "sample", versionTarget(2), stableAlias),
    ).rejects.toMatchObject({
      code: "alias_conflict",
    });
    expect(await readSampleAliases()).toEqual({ stable: { version: 3, previous: [1] } });
  });
});

describe("rollbackAlias", () => {
  it("goes back step by step through all recorded versions", async () => {
    for (const number of [1, 2, 3])
      await promoteAlias(store, "sample", versionTarget(number), stableAlias);
    expect(await rollbackAlias(store, "sample", "stable")).toMatchObject({
      before: { version: 3 },
      after: { version: 2, previous: [1] },
    });
    expect(await rollbackAlias(store, "sample", "stable")).toMatchObject({
      after: { version: 1, previous: [] },
    });
    await expect(rollbackAlias(store, "sample", "stable")).rejects.toMatchObject({
      code: "nothing_before",
      status: 409,
    });
    expect(await readSampleAliases()).toEqual({ stable: 1 });
  });

  it("keeps the weight, and does not change other aliases", async () => {
    await promoteAlias(store, "sample", versionTarget(1), stableAlias);
    for (const number of [2, 3])
      await promoteAlias(store, "sample", versionTarget(number), { alias: "canary", weight: 0.25 });
    await rollbackAlias(store, "sample", "canary");
    expect(await readSampleAliases()).toEqual({ stable: 1, canary: { version: 2, weight: 0.25 } });
  });

  it("rejects an unknown alias and an unknown model", async () => {
    await expect(rollbackAlias(store, "sample", "stable")).rejects.toMatchObject({
      code: "nothing_before",
    });
    await expect(rollbackAlias(store, "nothing", "stable")).rejects.toMatchObject({
      code: "model_not_found",
    });
  });
});

it("lists the aliases with a weight, except the default alias", () => {
  expect(
    listWeightedAliases({
      stable: { version: 1, weight: 0.5 },
      b: { version: 3, weight: 0.1 },
      a: { version: 2, weight: 0.2 },
      off: { version: 4, weight: 0 },
      plain: 5,
    }),
  ).toEqual([
    { alias: "a", version: 2, weight: 0.2 },
    { alias: "b", version: 3, weight: 0.1 },
  ]);
});
