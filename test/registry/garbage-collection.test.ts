// Tests garbage collection: deleted and kept objects, and concurrent publishers.
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { promoteAlias, rollbackAlias } from "../../src/registry/aliases.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import {
  collectGarbage,
  type GarbageCollectionResult,
  type GarbageCollectionOptions,
} from "../../src/registry/garbage-collection.ts";
import { listArtifacts } from "../../src/registry/manifest.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import { publishModel } from "../../src/registry/publish.ts";
import { storeLayout } from "../../src/registry/store-layout.ts";
import { sampleFiles, sampleProject } from "../support/sample-model.ts";
import { createTestSigningKey } from "../support/test-signing-key.ts";

const HOUR_MS = 3_600_000;

let clock: ManualClock;
let objects: ObjectStore;
let store: ModelStore;
beforeEach(() => {
  clock = new ManualClock(1_000 * HOUR_MS);
  objects = createMemoryObjectStore(clock);
  store = createModelStore(objects, { clock });
});

const publish = (seed: string, into = store) =>
  publishModel(into, { project: sampleProject, files: sampleFiles(seed) });
const collectFrom = (
  options: Partial<GarbageCollectionOptions> = {},
  from = objects,
): Promise<GarbageCollectionResult> =>
  collectGarbage(from, { olderThanMs: 24 * HOUR_MS, clock, ...options });
const advanceHours = (hours: number) => clock.advance(hours * HOUR_MS);
const versionsOf = ({ versions }: GarbageCollectionResult) =>
  versions.map(({ version }) => version);

/** Checks that every version has all its artifacts. */
async function expectAllArtifactsPresent(): Promise<void> {
  for (const version of await store.listVersions("sample")) {
    const manifest = await store.readManifest("sample", version);
    for (const ref of manifest === undefined ? [] : listArtifacts(manifest))
      expect(await store.hasArtifact(ref), `${ref.sha256} of version ${version}`).toBe(true);
  }
}

describe("artifacts", () => {
  it("are deleted if they are old and no version references them", async () => {
    await publish("a");
    await store.writeArtifact(new TextEncoder().encode("left-over"));
    advanceHours(23);
    expect(await collectFrom()).toMatchObject({
      artifacts: [],
      kept: { versions: 1, artifacts: 4 },
    });
    advanceHours(1);
    expect(await collectFrom()).toMatchObject({
      artifacts: [{ bytes: 9 }],
      kept: { versions: 1, artifacts: 3 },
    });
    expect(await objects.list(storeLayout.artifacts)).toHaveLength(3);
    await expectAllArtifactsPresent();
  });

  it("stay in a dry run, which reports the same result", async () => {
    await publish("a");
    await publish("b");
    await store.writeArtifact(new TextEncoder().encode("left-over"));
    advanceHours(48);
    const before = await objects.list("");
    const predicted = await collectFrom({ keepVersions: 1, isDryRun: true });
    expect(await objects.list("")).toEqual(before);
    expect(await collectFrom({ keepVersions: 1 })).toEqual(predicted);
  });

  it("stay if a signed manifest references them, even without a trusted key", async () => {
    await publish(
      "a",
      createModelStore(objects, { clock, signingKeys: [await createTestSigningKey()] }),
    );
    advanceHours(48);
    expect(await collectFrom()).toMatchObject({ artifacts: [] });
    await expectAllArtifactsPresent();
  });

  it("stay in every other part of the store", async () => {
    for (const key of [
      "engines/edge.json",
      "blobs/sha256/readme.txt",
      "models/x/aliases.json",
      "elsewhere/a",
    ])
      await objects.put(key, new TextEncoder().encode("{}"), { kind: "any" }, "text/plain");
    advanceHours(48);
    expect(await collectFrom({ keepVersions: 1 })).toMatchObject({ versions: [], artifacts: [] });
    expect(await objects.list("")).toHaveLength(4);
  });
});

describe("versions", () => {
  beforeEach(async () => {
    for (const seed of ["a", "b", "c", "d", "e", "f", "g", "h"]) await publish(seed);
  });

  it("all stay by default", async () => {
    advanceHours(48);
    expect(await collectFrom()).toMatchObject({
      versions: [],
      artifacts: [],
      kept: { versions: 8 },
    });
  });

  it("are deleted beyond the kept number, unless an alias names them or can roll back to them", async () => {
    // The alias `stable` names version 8, and can roll back to 7, 6, 5, 4 and 3.
    advanceHours(48);
    expect(versionsOf(await collectFrom({ keepVersions: 2 })).sort()).toEqual([1, 2]);
    expect(await store.listVersions("sample")).toEqual([3, 4, 5, 6, 7, 8]);
    await expectAllArtifactsPresent();
    expect(await rollbackAlias(store, "sample", "stable")).toMatchObject({ after: { version: 7 } });
  });

  it("are deleted with the artifacts that only they reference", async () => {
    advanceHours(48);
    const { artifacts } = await collectFrom({ keepVersions: 2 });
    expect(artifacts).toHaveLength(2); // each version has its own graph
    await expectAllArtifactsPresent();
  });

  it("stay while they are young, and the newest version stays always", async () => {
    expect(versionsOf(await collectFrom({ keepVersions: 1 }))).toEqual([]);
    const { etag } = (await store.readAliases("sample")) ?? {};
    await store.writeAliases("sample", { stable: 1 }, etag);
    advanceHours(48);
    expect(versionsOf(await collectFrom({ keepVersions: 1 })).sort()).toEqual([2, 3, 4, 5, 6, 7]);
    expect(await store.listVersions("sample")).toEqual([1, 8]);
    await expectAllArtifactsPresent();
  });

  it("stay with their artifacts if an alias moves to them during the collection", async () => {
    advanceHours(48);
    let reads = 0;
    const promoting: ObjectStore = {
      ...objects,
      async get(key, signal) {
        if (key === storeLayout.aliases("sample") && ++reads === 2)
          await promoteAlias(store, "sample", { kind: "version", version: 1 }, { alias: "night" });
        return await objects.get(key, signal);
      },
    };
    expect(versionsOf(await collectFrom({ keepVersions: 2 }, promoting))).toEqual([2]);
    await expectAllArtifactsPresent();
  });
});

describe("an unreadable manifest or alias file", () => {
  it("ends the collection before any deletion", async () => {
    await publish("a");
    await store.writeArtifact(new TextEncoder().encode("left-over"));
    await objects.put(
      storeLayout.manifest("sample", 2),
      new TextEncoder().encode("{oops"),
      { kind: "any" },
      "application/json",
    );
    advanceHours(48);
    const before = await objects.list("");
    await expect(collectFrom()).rejects.toMatchObject({ code: "manifest_invalid" });
    await objects.delete(storeLayout.manifest("sample", 2));
    await objects.put(
      storeLayout.aliases("sample"),
      new TextEncoder().encode("{oops"),
      { kind: "any" },
      "application/json",
    );
    await expect(collectFrom()).rejects.toMatchObject({ code: "aliases_invalid" });
    expect(await objects.list(storeLayout.artifacts)).toEqual(
      before.filter(({ key }) => key.startsWith(storeLayout.artifacts)),
    );
  });

  it("does not prevent the deletion of a damaged surplus version", async () => {
    for (const seed of ["a", "b"]) await publish(seed);
    await objects.put(
      storeLayout.manifest("sample", 1),
      new TextEncoder().encode("{oops"),
      { kind: "any" },
      "application/json",
    );
    await store.writeAliases("sample", { stable: 2 }, (await store.readAliases("sample"))?.etag);
    advanceHours(48);
    expect(versionsOf(await collectFrom({ keepVersions: 1 }))).toEqual([1]);
    await expectAllArtifactsPresent();
  });
});

describe("collection during publishing", () => {
  // The published artifacts are already in the store, as garbage.
  it.each(Array.from({ length: 24 }, (_, step) => [step]))(
    "keeps every version complete if the publisher starts after %i steps of the collector",
    async (step) => {
      await publish("a");
      for (const bytes of sampleFiles("b").values()) await store.writeArtifact(bytes);
      advanceHours(48);
      let steps = 0;
      let publishing: Promise<unknown> | undefined;
      const countStep = async <Result>(operation: () => Promise<Result>): Promise<Result> => {
        if (steps++ === step) await (publishing = publish("b"));
        return await operation();
      };
      const collector: ObjectStore = {
        ...objects,
        get: (key, signal) => countStep(() => objects.get(key, signal)),
        list: (prefix, signal) => countStep(() => objects.list(prefix, signal)),
      };
      await collectFrom({}, collector);
      await (publishing ?? publish("b"));
      expect(await store.listVersions("sample")).toEqual([1, 2]);
      await expectAllArtifactsPresent();
    },
  );

  it.each(Array.from({ length: 16 }, (_, step) => [step]))(
    "keeps every version complete if the collector runs after %i steps of the publisher",
    async (step) => {
      await publish("a");
      for (const bytes of sampleFiles("b").values()) await store.writeArtifact(bytes);
      advanceHours(48);
      let steps = 0;
      const countStep = async <Result>(operation: () => Promise<Result>): Promise<Result> => {
        if (steps++ === step) await collectFrom();
        return await operation();
      };
      const publisher: ObjectStore = {
        ...objects,
        get: (key, signal) => countStep(() => objects.get(key, signal)),
        put: (...all) => countStep(() => objects.put(...all)),
        exists: (key, signal) => countStep(() => objects.exists(key, signal)),
        list: (prefix, signal) => countStep(() => objects.list(prefix, signal)),
      };
      await publish("b", createModelStore(publisher, { clock }));
      expect(await store.listVersions("sample")).toEqual([1, 2]);
      await expectAllArtifactsPresent();
    },
  );
});
