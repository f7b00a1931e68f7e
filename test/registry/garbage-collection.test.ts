// Collecting garbage: what goes, what stays, and what a publisher does meanwhile.
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { promoteAlias, rollbackAlias } from "../../src/registry/aliases.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import {
  collectGarbage,
  type GarbageCollectionResult,
  type GarbageCollectionOptions,
} from "../../src/registry/garbage-collection.ts";
import { storeLayout } from "../../src/registry/store-layout.ts";
import { listArtifacts } from "../../src/registry/manifest.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import { publishModel } from "../../src/registry/publish.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
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

/** Every version that there is has all its artifacts. */
async function expectAllArtifactsPresent(): Promise<void> {
  for (const version of await store.listVersions("sample")) {
    const manifest = await store.readManifest("sample", version);
    for (const ref of manifest === undefined ? [] : listArtifacts(manifest))
      expect(await store.hasArtifact(ref), `${ref.sha256} of version ${version}`).toBe(true);
  }
}

describe("artifacts", () => {
  it("go when no version names them and they are old", async () => {
    await publish("a");
    await store.writeArtifact(new TextEncoder().encode("left over"));
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

  it("stay in a dry run, which tells the same", async () => {
    await publish("a");
    await publish("b");
    await store.writeArtifact(new TextEncoder().encode("left over"));
    advanceHours(48);
    const before = await objects.list("");
    const foretold = await collectFrom({ keepVersions: 1, isDryRun: true });
    expect(await objects.list("")).toEqual(before);
    expect(await collectFrom({ keepVersions: 1 })).toEqual(foretold);
  });

  it("stay that a signed manifest names, whoever signed it", async () => {
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

  it("all stay unless told otherwise", async () => {
    advanceHours(48);
    expect(await collectFrom()).toMatchObject({
      versions: [],
      artifacts: [],
      kept: { versions: 8 },
    });
  });

  it("go beyond those to keep, but for those that an alias names or can roll back to", async () => {
    // stable is 8, and was 7, 6, 5, 4 and 3
    advanceHours(48);
    expect(versionsOf(await collectFrom({ keepVersions: 2 })).sort()).toEqual([1, 2]);
    expect(await store.listVersions("sample")).toEqual([3, 4, 5, 6, 7, 8]);
    await expectAllArtifactsPresent();
    expect(await rollbackAlias(store, "sample", "stable")).toMatchObject({ after: { version: 7 } });
  });

  it("go with the artifacts that only they name", async () => {
    advanceHours(48);
    const { artifacts } = await collectFrom({ keepVersions: 2 });
    expect(artifacts).toHaveLength(2); // each version has a graph of its own
    await expectAllArtifactsPresent();
  });

  it("stay while they are young, and the newest always", async () => {
    expect(versionsOf(await collectFrom({ keepVersions: 1 }))).toEqual([]);
    const { etag } = (await store.readAliases("sample")) ?? {};
    await store.writeAliases("sample", { stable: 1 }, etag);
    advanceHours(48);
    expect(versionsOf(await collectFrom({ keepVersions: 1 })).sort()).toEqual([2, 3, 4, 5, 6, 7]);
    expect(await store.listVersions("sample")).toEqual([1, 8]);
    await expectAllArtifactsPresent();
  });

  it("stay when an alias is moved to one meanwhile, with its artifacts", async () => {
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

describe("what cannot be read", () => {
  it("ends it before anything is deleted", async () => {
    await publish("a");
    await store.writeArtifact(new TextEncoder().encode("left over"));
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

  it("does not keep a damaged version that is to go anyway from going", async () => {
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

describe("beside a publisher", () => {
  // What he publishes is in the store already, as garbage.
  it.each(Array.from({ length: 24 }, (_, step) => [step]))(
    "keeps every version whole: the publisher begins after %i steps of the collector",
    async (step) => {
      await publish("a");
      for (const bytes of sampleFiles("b").values()) await store.writeArtifact(bytes);
      advanceHours(48);
      let steps = 0;
      let publishing: Promise<unknown> | undefined;
      const counted = async <Result>(work: () => Promise<Result>): Promise<Result> => {
        if (steps++ === step) await (publishing = publish("b"));
        return await work();
      };
      const collector: ObjectStore = {
        ...objects,
        get: (key, signal) => counted(() => objects.get(key, signal)),
        list: (prefix, signal) => counted(() => objects.list(prefix, signal)),
      };
      await collectFrom({}, collector);
      await (publishing ?? publish("b"));
      expect(await store.listVersions("sample")).toEqual([1, 2]);
      await expectAllArtifactsPresent();
    },
  );

  it.each(Array.from({ length: 16 }, (_, step) => [step]))(
    "keeps every version whole: the collector runs after %i steps of the publisher",
    async (step) => {
      await publish("a");
      for (const bytes of sampleFiles("b").values()) await store.writeArtifact(bytes);
      advanceHours(48);
      let steps = 0;
      const counted = async <Result>(work: () => Promise<Result>): Promise<Result> => {
        if (steps++ === step) await collectFrom();
        return await work();
      };
      const publisher: ObjectStore = {
        ...objects,
        get: (key, signal) => counted(() => objects.get(key, signal)),
        put: (...all) => counted(() => objects.put(...all)),
        exists: (key, signal) => counted(() => objects.exists(key, signal)),
        list: (prefix, signal) => counted(() => objects.list(prefix, signal)),
      };
      await publish("b", createModelStore(publisher, { clock }));
      expect(await store.listVersions("sample")).toEqual([1, 2]);
      await expectAllArtifactsPresent();
    },
  );
});
