// Tests publishing: it is idempotent, safe with concurrent publishers, and invisible until it is complete. This file exceeds
// 300 lines because all groups share one set of sources and fixtures.
import { describe, expect, it } from "vitest";
import { EdgeTierError } from "../../src/core/errors.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import { listArtifacts } from "../../src/registry/manifest.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import {
  publishModel,
  type PublishProvenance,
  type PublishProgress,
} from "../../src/registry/publish.ts";
import type { SigningKey } from "../../src/registry/signing-keys.ts";
import { storeLayout } from "../../src/registry/store-layout.ts";
import { sampleFiles, sampleProject } from "../support/sample-model.ts";
import { createTestSigningKey } from "../support/test-signing-key.ts";

const createSource = (seed = "") => ({ project: sampleProject, files: sampleFiles(seed) });

function setUp(objects: ObjectStore = createMemoryObjectStore()) {
  return { objects, store: createModelStore(objects) };
}

describe("publishModel", () => {
  it("writes artifacts, then the manifest, then the alias", async () => {
    const { objects, store } = setUp();
    const writes: string[] = [];
    const recording: ObjectStore = {
      ...objects,
      put(key, ...rest) {
        writes.push(key.split("/")[0] === "blobs" ? "blob" : key);
        return objects.put(key, ...rest);
      },
    };
    const events: PublishProgress[] = [];
    const result = await publishModel(createModelStore(recording), createSource(), {
      onProgress: (event) => events.push(event),
    });
    expect(writes).toEqual([
      "blob",
      "blob",
      "blob",
      "models/sample/versions/1.json",
      "models/sample/aliases.json",
    ]);
    expect(events.map((event) => event.kind)).toEqual([
      "artifact",
      "artifact",
      "artifact",
      "manifest",
      "alias",
    ]);
    expect(result).toEqual({
      model: "sample",
      version: 1,
      outcome: "published",
      alias: "stable",
      aliasVersion: 1,
      aliasMoved: true,
      uploadedBytes: 49,
    });
    const manifest = await store.readManifest("sample", 1);
    for (const ref of manifest === undefined ? [] : listArtifacts(manifest))
      expect((await store.readArtifact(ref)).byteLength).toBe(ref.size);
  });

  it("has no effect for unchanged content", async () => {
    const { objects, store } = setUp();
    await publishModel(store, createSource());
    const before = await objects.list("");
    expect(await publishModel(store, createSource())).toMatchObject({
      version: 1,
      outcome: "unchanged",
      aliasMoved: false,
      uploadedBytes: 0,
    });
    expect(await objects.list("")).toEqual(before);
  });
});

describe("publishing changed content", () => {
  it("creates a new version, and moves the alias", async () => {
    const { store } = setUp();
    await publishModel(store, createSource("a"));
    expect(await publishModel(store, createSource("b"))).toMatchObject({
      version: 2,
      outcome: "published",
      aliasVersion: 2,
    });
    const figures = {
      project: { ...sampleProject, figures: { accuracy: 1 } },
      files: sampleFiles("b"),
    };
    expect(await publishModel(store, figures)).toMatchObject({ version: 3, uploadedBytes: 0 });
  });
});

describe("the alias of a published model", () => {
  it("is added to existing content, and does not affect other aliases", async () => {
    const { store } = setUp();
    await publishModel(store, createSource());
    expect(await publishModel(store, createSource(), { alias: "canary" })).toMatchObject({
      version: 1,
      outcome: "unchanged",
      aliasMoved: true,
    });
    expect((await store.readAliases("sample"))?.aliases).toEqual({ stable: 1, canary: 1 });
  });

  it("stays at the version with the same content even if a newer one exists", async () => {
    const { store } = setUp();
    await publishModel(store, createSource("a"));
    await publishModel(store, createSource("b"), { alias: "canary" });
    expect(await publishModel(store, createSource("a"))).toMatchObject({
      version: 1,
      outcome: "unchanged",
    });
    expect((await store.readAliases("sample"))?.aliases).toEqual({ stable: 1, canary: 2 });
  });

  it("remembers its previous versions", async () => {
    const { store } = setUp();
    for (const seed of ["a", "b", "c"]) await publishModel(store, createSource(seed));
    expect((await store.readAliases("sample"))?.aliases).toEqual({
      stable: { version: 3, previous: [2, 1] },
    });
  });

  it("keeps its weight", async () => {
    const { store } = setUp();
    await publishModel(store, createSource("a"));
    const stored = await store.readAliases("sample");
    await store.writeAliases(
      "sample",
      { stable: 1, canary: { version: 1, weight: 0.05 } },
      stored?.etag,
    );
    await publishModel(store, createSource("b"), { alias: "canary" });
    expect((await store.readAliases("sample"))?.aliases).toEqual({
      stable: 1,
      canary: { version: 2, weight: 0.05, previous: [1] },
    });
  });
});

describe("concurrent publishers", () => {
  it("all succeed with different content, and the alias names the latest version", async () => {
    const { store } = setUp();
    const results = await Promise.all(
      ["a", "b", "c", "d"].map((seed) => publishModel(store, createSource(seed))),
    );
    expect(results.map(({ version }) => version).sort()).toEqual([1, 2, 3, 4]);
    expect((await store.readAliases("sample"))?.aliases).toMatchObject({ stable: { version: 4 } });
  });

  it("create one version of the same content", async () => {
    const { store } = setUp();
    const results = await Promise.all([
      publishModel(store, createSource()),
      publishModel(store, createSource()),
    ]);
    expect(results.map(({ version }) => version)).toEqual([1, 1]);
    expect(results.map(({ outcome }) => outcome).sort()).toEqual(["published", "unchanged"]);
    expect(await store.listVersions("sample")).toEqual([1]);
  });

  it("fail with the conflict if others always win", async () => {
    const { objects, store } = setUp();
    const losing: ObjectStore = {
      ...objects,
      put: async (key, ...rest) =>
        key.endsWith("aliases.json") ? { kind: "precondition-failed" } : objects.put(key, ...rest),
    };
    await expect(publishModel(createModelStore(losing), createSource())).rejects.toMatchObject({
      code: "alias_conflict",
    });
    expect(await store.listVersions("sample")).toEqual([1]);
  });
});

describe("interrupted publishing", () => {
  it("is invisible before the manifest is written, and completes when repeated", async () => {
    const { objects, store } = setUp();
    let writes = 0;
    const failing: ObjectStore = {
      ...objects,
      put(key, ...rest) {
        if (++writes > 2) throw new Error("the power failed");
        return objects.put(key, ...rest);
      },
    };
    await expect(publishModel(createModelStore(failing), createSource())).rejects.toThrow(
      "the power failed",
    );
    expect(await store.listModels()).toEqual([]);
    expect(await store.readAliases("sample")).toBeUndefined();
    expect(await publishModel(store, createSource())).toMatchObject({
      version: 1,
      outcome: "published",
    });
  });

  it("moves the alias when it is repeated", async () => {
    const { objects, store } = setUp();
    const failing: ObjectStore = {
      ...objects,
      put(key, ...rest) {
        if (key.endsWith("aliases.json")) throw new Error("the power failed");
        return objects.put(key, ...rest);
      },
    };
    await expect(publishModel(createModelStore(failing), createSource())).rejects.toThrow(
      "the power failed",
    );
    expect(await publishModel(store, createSource())).toMatchObject({
      version: 1,
      outcome: "unchanged",
      aliasMoved: true,
    });
  });
});

describe("publishing over damaged or missing data", () => {
  it("skips a damaged manifest, and repairs a damaged artifact", async () => {
    const { objects, store } = setUp();
    await publishModel(store, createSource());
    await objects.put(
      storeLayout.manifest("sample", 1),
      new TextEncoder().encode("{oops"),
      { kind: "any" },
      "application/json",
    );
    expect(await publishModel(store, createSource())).toMatchObject({
      version: 2,
      outcome: "published",
    });
    const manifest = await store.readManifest("sample", 2);
    const ref = manifest?.labels ?? { sha256: "", size: 0 };
    await objects.put(storeLayout.artifact(ref.sha256), new Uint8Array(3), { kind: "any" }, "x");
    expect(await publishModel(store, createSource())).toMatchObject({
      outcome: "unchanged",
      uploadedBytes: ref.size,
    });
    expect((await store.readArtifact(ref)).byteLength).toBe(ref.size);
  });

  it("rejects a project with a missing file, before any write", async () => {
    const { objects, store } = setUp();
    const publishing = publishModel(store, {
      project: sampleProject,
      files: new Map([...sampleFiles()].slice(0, 1)),
    });
    await expect(publishing).rejects.toThrow(EdgeTierError);
    await expect(publishing).rejects.toMatchObject({ code: "invalid_project" });
    expect(await objects.list("")).toEqual([]);
  });

  it("rewrites an artifact that garbage collection deletes concurrently", async () => {
    const { objects, store } = setUp();
    await publishModel(store, createSource("a"));
    const labels = storeLayout.artifact(
      (await store.readManifest("sample", 1))?.labels?.sha256 ?? "",
    );
    const collecting: ObjectStore = {
      ...objects,
      async put(key, ...rest) {
        if (key.endsWith("2.json")) await objects.delete(labels); // existed when the publisher checked
        return await objects.put(key, ...rest);
      },
    };
    expect(await publishModel(createModelStore(collecting), createSource("b"))).toMatchObject({
      version: 2,
    });
    expect(await objects.exists(labels)).toBe(true);
  });
});

describe("provenance", () => {
  const publishing: PublishProvenance = {
    command: "edgetier model publish sample",
    source: { sha256: "ab".repeat(32), files: 4 },
    versions: { edgetier: "1.0.0" },
    git: { commit: "cd".repeat(20), isModified: false },
  };

  it("combines the project's own with the publishing record", async () => {
    const { store } = setUp();
    await publishModel(store, createSource(), { publishing });
    expect((await store.readManifest("sample", 1))?.provenance).toEqual({
      ...sampleProject.provenance,
      publishing,
    });
  });

  it("of publishing alone does not create a new version", async () => {
    const { store } = setUp();
    await publishModel(store, createSource(), { publishing });
    const later = { ...publishing, git: { commit: "ef".repeat(20), isModified: true } };
    expect(await publishModel(store, createSource(), { publishing: later })).toMatchObject({
      version: 1,
      outcome: "unchanged",
    });
    expect(await publishModel(store, createSource())).toMatchObject({
      version: 1,
      outcome: "unchanged",
    });
    const other = {
      project: { ...sampleProject, provenance: { dataset: "another" } },
      files: sampleFiles(),
    };
    expect(await publishModel(store, other, { publishing })).toMatchObject({
      version: 2,
      outcome: "published",
    });
  });

  it("of the project takes precedence", async () => {
    const { store } = setUp();
    await publishModel(
      store,
      {
        project: { ...sampleProject, provenance: { publishing: "by hand" } },
        files: sampleFiles(),
      },
      { publishing },
    );
    expect((await store.readManifest("sample", 1))?.provenance).toEqual({ publishing: "by hand" });
  });
});

describe("publishing with signatures", () => {
  it("creates a new version of content that is unsigned or signed with another key", async () => {
    const { objects, store } = setUp();
    const [first, second] = await Promise.all([createTestSigningKey(), createTestSigningKey()]);
    const publisher = (key: SigningKey) =>
      createModelStore(objects, { signingKeys: [key], trustedKeys: [key.publicKey] });
    await publishModel(store, createSource());
    expect(await publishModel(publisher(first), createSource())).toMatchObject({
      version: 2,
      outcome: "published",
    });
    expect(await publishModel(publisher(first), createSource())).toMatchObject({
      version: 2,
      outcome: "unchanged",
    });
    expect(await publishModel(publisher(second), createSource())).toMatchObject({
      version: 3,
      outcome: "published",
    });
    expect(await store.readSignedManifest("sample", 3)).toMatchObject({ signedBy: [second.id] });
  });
});
