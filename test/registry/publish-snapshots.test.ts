// Tests publishing with snapshots, which are part of a version.
import { beforeEach, describe, expect, it } from "vitest";
import { ZodError } from "zod";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import { listArtifacts, manifestSchema } from "../../src/registry/manifest.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import {
  publishModel,
  type PublishProgress,
  type TierSnapshot,
} from "../../src/registry/publish.ts";
import { sampleFiles, sampleProject } from "../support/sample-model.ts";

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

describe("publishModel with snapshots", () => {
  it("references them in the manifest, and stores their artifacts", async () => {
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
    const { bytes, ...fields } = snapshot;
    expect(manifest?.tiers[0]?.snapshot).toEqual({
      ...fields,
      artifact: { sha256: expect.stringMatching(/^[0-9a-f]{64}$/), size: bytes.byteLength },
    });
    const artifact = manifest?.tiers[0]?.snapshot?.artifact ?? { sha256: "", size: 0 };
    expect(await store.readArtifact(artifact)).toEqual(bytes);
    expect(manifest && listArtifacts(manifest)).toContainEqual(artifact);
    expect(events).toContainEqual({
      kind: "artifact",
      path: expect.stringContaining("student"),
      ref: artifact,
      created: true,
    });
  });

  it("has no effect for unchanged content", async () => {
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
});

describe("a change of snapshots", () => {
  it.each<[description: string, changes: Partial<TierSnapshot>]>([
    ["another memory", { bytes: new TextEncoder().encode("another memory") }],
    ["another engine", { engine: "56".repeat(32) }],
    ["other functions", { functions: "AQIE" }],
    ["another head", { head: { sha256: "78".repeat(32), size: 5 } }],
  ])("creates a new version for %s", async (_description, changes) => {
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

  it("creates a new version when they are added or removed", async () => {
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

  it("rejects an invalid description, and writes no visible version", async () => {
    await expect(publishModel(store, withSnapshot({ functions: "not base64!" }))).rejects.toThrow(
      ZodError,
    );
    expect(await store.listModels()).toEqual([]);
  });
});
