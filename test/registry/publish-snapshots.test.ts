// Publishing with snapshots: part of a version as everything else is.
import { beforeEach, describe, expect, it } from "vitest";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import { listArtifacts, manifestSchema } from "../../src/registry/manifest.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import {
  publishModel,
  type PublishProgress,
  type TierSnapshot,
} from "../../src/registry/publish.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { sampleFiles, sampleProject } from "../support/sample-model.ts";

describe("publishModel with snapshots", () => {
  let objects: ObjectStore;
  let store: ModelStore;
  beforeEach(() => {
    objects = createMemoryObjectStore();
    store = createModelStore(objects);
  });
  const snapshot: TierSnapshot = {
    bytes: new TextEncoder().encode("a memory"),
    head: { sha256: "12".repeat(32), size: 5 },
    engine: "34".repeat(32),
    functions: "AQID",
    memoryBytes: 65_536,
  };
  const source = { project: sampleProject, files: sampleFiles() };
  const withSnapshot = (changes: Partial<TierSnapshot> = {}) => ({
    ...source,
    snapshots: new Map([["student", { ...snapshot, ...changes }]]),
  });

  it("names them in the manifest, with their artifacts in the store", async () => {
    const events: PublishProgress[] = [];
    const result = await publishModel(store, withSnapshot(), {
      onProgress: (event) => events.push(event),
    });
    expect(result).toMatchObject({
      version: 1,
      outcome: "published",
      uploadedBytes: 49 + snapshot.bytes.byteLength,
    });
    const manifest = await store.readManifest("sample", 1);
    const { bytes, ...described } = snapshot;
    expect(manifest?.tiers[0]?.snapshot).toEqual({
      ...described,
      artifact: { sha256: expect.stringMatching(/^[0-9a-f]{64}$/), size: bytes.byteLength },
    });
    const artifact = manifest?.tiers[0]?.snapshot?.artifact ?? { sha256: "", size: 0 };
    expect(await store.readArtifact(artifact)).toEqual(bytes);
    expect(manifest && listArtifacts(manifest)).toContainEqual(artifact);
    expect(events).toContainEqual({
      step: "artifact",
      path: expect.stringContaining("student"),
      ref: artifact,
      created: true,
    });
  });

  it("changes nothing when the same is published again", async () => {
    await publishModel(store, withSnapshot());
    const before = await objects.list("");
    expect(await publishModel(store, withSnapshot())).toMatchObject({
      version: 1,
      outcome: "unchanged",
      aliasMoved: false,
      uploadedBytes: 0,
    });
    expect(await objects.list("")).toEqual(before);
  });

  it.each<[what: string, changes: Partial<TierSnapshot>]>([
    ["another image", { bytes: new TextEncoder().encode("another memory") }],
    ["the same for another engine", { engine: "56".repeat(32) }],
    ["the same with other functions", { functions: "AQIE" }],
    ["the same with another head", { head: { sha256: "78".repeat(32), size: 5 } }],
  ])("makes a new version of %s", async (_what, changes) => {
    await publishModel(store, withSnapshot());
    expect(await publishModel(store, withSnapshot(changes))).toMatchObject({
      version: 2,
      outcome: "published",
      aliasVersion: 2,
    });
    expect((await store.readManifest("sample", 2))?.tiers[0]?.snapshot).toMatchObject(
      changes.bytes === undefined ? changes : { artifact: { size: changes.bytes.byteLength } },
    );
    expect((await store.readManifest("sample", 1))?.tiers[0]?.snapshot).toMatchObject({
      engine: snapshot.engine,
      functions: snapshot.functions,
    });
  });

  it("makes a new version when they come, and when they go; a version without them is as valid as before", async () => {
    expect(await publishModel(store, source)).toMatchObject({ version: 1 });
    expect(await publishModel(store, withSnapshot())).toMatchObject({
      version: 2,
      outcome: "published",
    });
    expect(await publishModel(store, source)).toMatchObject({ version: 3, outcome: "published" });
    const [before, , after] = await Promise.all(
      [1, 2, 3].map((version) => store.readManifest("sample", version)),
    );
    expect(before).toEqual({ ...after, version: 1 });
    expect(before?.tiers[0]).not.toHaveProperty("snapshot");
    expect(manifestSchema.safeParse(before).success).toBe(true);
  });

  it("refuses one that is described wrongly, and nothing is visible", async () => {
    await expect(publishModel(store, withSnapshot({ functions: "not base64!" }))).rejects.toThrow(
      "base64",
    );
    expect(await store.listModels()).toEqual([]);
  });
});
