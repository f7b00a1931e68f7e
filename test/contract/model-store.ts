// What every ModelStore must do, over whichever ObjectStore driver. No imports from Node: it runs in workerd as well.
import { beforeEach, describe, expect, it } from "vitest";
import type { DeployedEngine } from "../../src/registry/deployed-engine.ts";
import { layout } from "../../src/registry/layout.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import type { ObjectStore, StoredObject } from "../../src/registry/object-store.ts";
import { createModelStore } from "../../src/registry/store.ts";
import { sampleManifest } from "../support/sample-model.ts";

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const ANY = { kind: "any" } as const;
const ABSENT = { kind: "absent" } as const;

/** @param fresh gives an empty object store for each test. */
export function modelStoreContract(driver: string, fresh: () => Promise<ObjectStore>): void {
  describe(`ModelStore over ${driver}`, () => {
    let objects: ObjectStore;
    let store: ModelStore;
    beforeEach(async () => {
      objects = await fresh();
      store = createModelStore(objects);
    });
    const put = (key: string, text: string) => objects.put(key, bytesOf(text), ANY, "text/plain");

    describe("objects", () => {
      const text = async (found: StoredObject | undefined) => (found === undefined ? undefined : await new Response(found.body).text());

      it("gives back what was put, its size and its etag", async () => {
        const written = await objects.put("a/b.txt", bytesOf("hello"), ANY, "text/plain");
        const found = await objects.get("a/b.txt");
        expect(found).toMatchObject({ size: 5, etag: written.kind === "written" ? written.etag : "-" });
        expect(await text(found)).toBe("hello");
        expect(await objects.exists("a/b.txt")).toBe(true);
      });

      it("knows that an object is not there", async () => {
        expect(await objects.get("a/nothing")).toBeUndefined();
        expect(await objects.exists("a/nothing")).toBe(false);
        expect(await objects.list("a/")).toEqual([]);
      });

      it("puts only where nothing is, if asked to", async () => {
        expect((await objects.put("k", bytesOf("1"), ABSENT, "text/plain")).kind).toBe("written");
        expect((await objects.put("k", bytesOf("2"), ABSENT, "text/plain")).kind).toBe("precondition-failed");
        expect(await text(await objects.get("k"))).toBe("1");
      });

      it("replaces only what has the etag, if asked to", async () => {
        const first = await objects.put("k", bytesOf("1"), ANY, "text/plain");
        if (first.kind !== "written") throw new Error("not written");
        const condition = { kind: "etag", etag: first.etag } as const;
        expect((await objects.put("k", bytesOf("2"), condition, "text/plain")).kind).toBe("written");
        expect((await objects.put("k", bytesOf("3"), condition, "text/plain")).kind).toBe("precondition-failed");
        expect((await objects.put("elsewhere", bytesOf("3"), condition, "text/plain")).kind).toBe("precondition-failed");
        expect(await text(await objects.get("k"))).toBe("2");
        expect(await objects.exists("elsewhere")).toBe(false);
      });

      it("lets one of many concurrent writers win", async () => {
        const results = await Promise.all(Array.from({ length: 8 }, (_, index) => objects.put("race", bytesOf(`${index}`), ABSENT, "text/plain")));
        expect(results.filter((one) => one.kind === "written")).toHaveLength(1);
        expect(await text(await objects.get("race"))).toBe(`${results.findIndex((one) => one.kind === "written")}`);
      });

      it("lists by prefix, sorted", async () => {
        for (const key of ["p/b", "p/a/x", "pq", "o/z", "p/c"]) await put(key, "x");
        expect(await objects.list("p/")).toEqual(["p/a/x", "p/b", "p/c"]);
      });

      it("gives up when aborted", async () => {
        await put("k", "x");
        await expect(
          objects.get("k", AbortSignal.abort()).then((found) => new Response(found?.body).text()),
        ).rejects.toThrow(/abort/i);
      });
    });

    describe("artifacts", () => {
      it("gives back an artifact that was written, once", async () => {
        const bytes = bytesOf("weights");
        const first = await store.writeArtifact(bytes);
        expect(first.created).toBe(true);
        expect((await store.writeArtifact(bytes)).created).toBe(false);
        expect(await store.readArtifact(first.ref)).toEqual(bytes);
      });

      it("keeps every byte of a megabyte", async () => {
        const bytes = Uint8Array.from({ length: 1_048_577 }, (_, index) => (index * 31) & 0xff);
        const { ref } = await store.writeArtifact(bytes);
        expect(ref.size).toBe(1_048_577);
        const read = await store.readArtifact(ref);
        expect(read.every((byte, index) => byte === bytes[index]) && read.byteLength === bytes.byteLength).toBe(true);
      });

      it.each([
        ["with a flipped byte", "weighus"],
        ["truncated", "weig"],
        ["larger than promised", "weights and more"],
        ["empty", ""],
      ])("refuses one %s, also where the store tells no size, and publishing repairs it", async (_, damaged) => {
        const { ref } = await store.writeArtifact(bytesOf("weights"));
        await put(layout.artifact(ref.sha256), damaged);
        await expect(store.readArtifact(ref)).rejects.toMatchObject({ code: "artifact_corrupt", status: 503 });
        await expect(createModelStore(withoutSizes(objects)).readArtifact(ref)).rejects.toMatchObject({ code: "artifact_corrupt" });
        expect((await store.writeArtifact(bytesOf("weights"))).created).toBe(true);
        expect(await store.readArtifact(ref)).toEqual(bytesOf("weights"));
      });

      it("refuses a missing one", async () => {
        await expect(store.readArtifact({ sha256: "0".repeat(64), size: 3 })).rejects.toMatchObject({ code: "artifact_corrupt" });
      });

      it("refuses one whose size the manifest promises wrongly", async () => {
        const { ref } = await store.writeArtifact(bytesOf("weights"));
        for (const size of [ref.size - 1, ref.size + 1]) {
          await expect(store.readArtifact({ ...ref, size })).rejects.toMatchObject({ code: "artifact_corrupt" });
        }
      });

      it("opens one: the bytes as they are stored, for the caller to verify", async () => {
        const read = async (opened: ReadableStream<Uint8Array>) => new Uint8Array(await new Response(opened).arrayBuffer());
        const bytes = Uint8Array.from({ length: 300_001 }, (_, index) => (index * 31) & 0xff);
        const { ref } = await store.writeArtifact(bytes);
        expect(await read(await store.openArtifact(ref))).toEqual(bytes);
        const damaged = bytes.map((byte, index) => (index === 200_000 ? byte ^ 1 : byte));
        await objects.put(layout.artifact(ref.sha256), damaged, ANY, "application/octet-stream");
        expect(await read(await store.openArtifact(ref))).toEqual(damaged);
      });

      it("opens none that is missing, or whose size is not as promised", async () => {
        await expect(store.openArtifact({ sha256: "0".repeat(64), size: 3 })).rejects.toMatchObject({ code: "artifact_corrupt", status: 503 });
        const { ref } = await store.writeArtifact(bytesOf("weights"));
        for (const size of [ref.size - 1, ref.size + 1]) {
          await expect(store.openArtifact({ ...ref, size })).rejects.toMatchObject({ code: "artifact_corrupt", detail: expect.stringContaining(`has ${ref.size} bytes`) });
        }
        const opened = await createModelStore(withoutSizes(objects)).openArtifact({ ...ref, size: 1 }); // nothing can be told before it is read
        expect(await new Response(opened).text()).toBe("weights");
      });

      it("gives up opening one when aborted", async () => {
        const { ref } = await store.writeArtifact(bytesOf("weights"));
        await expect(store.openArtifact(ref, AbortSignal.abort()).then((opened) => new Response(opened).text())).rejects.toThrow(/abort/i);
      });
    });

    describe("the deployed engine", () => {
      const cut: DeployedEngine = { kind: "cut", source: "ab".repeat(32), functions: "AQID" };

      it("is not known at first, then what was noted last", async () => {
        expect(await store.readDeployedEngine()).toBeUndefined();
        await store.writeDeployedEngine(cut);
        expect(await store.readDeployedEngine()).toEqual(cut);
        await store.writeDeployedEngine({ kind: "full", source: "cd".repeat(32) });
        expect(await store.readDeployedEngine()).toEqual({ kind: "full", source: "cd".repeat(32) });
        expect(await store.listModels()).toEqual([]);
      });

      it.each([
        ["that is not JSON", "{oops"],
        ["of a kind that is yet to come", JSON.stringify({ ...cut, kind: "split" })],
        ["with a field that is yet to come", JSON.stringify({ ...cut, patches: 2 })],
        ["without its functions", JSON.stringify({ kind: "cut", source: cut.source })],
        ["whose functions are not base64", JSON.stringify({ ...cut, functions: "?" })],
        ["of no digest", JSON.stringify({ ...cut, source: "latest" })],
      ])("is not known from a note %s, and can be noted anew", async (_, text) => {
        await put(layout.deployedEngine, text);
        expect(await store.readDeployedEngine()).toBeUndefined();
        await store.writeDeployedEngine(cut);
        expect(await store.readDeployedEngine()).toEqual(cut);
      });
    });

    describe("manifests", () => {
      it("gives back what was written", async () => {
        expect(await store.writeManifest(sampleManifest(1))).toEqual({ created: true });
        expect(await store.readManifest("sample", 1)).toEqual(sampleManifest(1));
      });

      it("never changes one: the same content is a no-op, other content is refused", async () => {
        await store.writeManifest(sampleManifest(1));
        expect(await store.writeManifest(sampleManifest(1))).toEqual({ created: false });
        const other = { ...sampleManifest(1), description: "changed" };
        await expect(store.writeManifest(other)).rejects.toMatchObject({ code: "version_exists", status: 409 });
        expect(await store.readManifest("sample", 1)).toEqual(sampleManifest(1));
      });

      it("lets one of two concurrent publishers of different content win", async () => {
        const results = await Promise.allSettled(["a", "b"].map((description) => store.writeManifest({ ...sampleManifest(1), description })));
        expect(results.map((one) => one.status).sort()).toEqual(["fulfilled", "rejected"]);
      });

      it("knows that a version is not there", async () => {
        expect(await store.readManifest("sample", 7)).toBeUndefined();
        expect(await store.listVersions("sample")).toEqual([]);
        expect(await store.readAliases("sample")).toBeUndefined();
      });

      it.each([
        ["not JSON", "{oops"],
        ["not UTF-8", "\ud800"], // encoded as U+FFFD, which is not JSON either
        ["another shape", '{"schemaVersion":99}'],
        ["another version", JSON.stringify(sampleManifest(2))],
      ])("refuses a manifest that is %s", async (_, text) => {
        await put(layout.manifest("sample", 1), text);
        await expect(store.readManifest("sample", 1)).rejects.toMatchObject({ code: "manifest_invalid", status: 503 });
      });

      it("refuses one that is absurdly large", async () => {
        await put(layout.manifest("sample", 1), `{"x":"${"y".repeat(1_100_000)}"}`);
        await expect(store.readManifest("sample", 1)).rejects.toMatchObject({ code: "manifest_invalid" });
      });

      it("lists models and versions in order, and nothing else", async () => {
        for (const version of [10, 2, 1]) await store.writeManifest(sampleManifest(version));
        await store.writeManifest({ ...sampleManifest(1), model: "another" });
        await store.writeAliases("aliases-only", { stable: 1 }, undefined);
        for (const stray of ["models/sample/versions/0.json", "models/sample/versions/x.json", "models/UPPER/versions/1.json", "models/README"]) await put(stray, "{}");
        expect(await store.listModels()).toEqual(["another", "sample"]);
        expect(await store.listVersions("sample")).toEqual([1, 2, 10]);
      });
    });

    describe("aliases", () => {
      it("changes them only from what was read", async () => {
        const first = await store.writeAliases("sample", { stable: 1 }, undefined);
        const second = await store.writeAliases("sample", { stable: 1, canary: { version: 2, weight: 0.05 } }, first.etag);
        expect(await store.readAliases("sample")).toEqual(second);
        await expect(store.writeAliases("sample", { stable: 9 }, first.etag)).rejects.toMatchObject({ code: "alias_conflict", status: 409 });
        await expect(store.writeAliases("sample", { stable: 9 }, undefined)).rejects.toMatchObject({ code: "alias_conflict" });
        expect((await store.readAliases("sample"))?.aliases).toEqual({ stable: 1, canary: { version: 2, weight: 0.05 } });
      });

      it("lets exactly one of many concurrent writers win, the first time and later", async () => {
        let etag: string | undefined;
        for (let round = 1; round <= 3; round++) {
          const from = etag;
          const results = await Promise.allSettled([1, 2, 3, 4, 5].map((version) => store.writeAliases("sample", { stable: 10 * round + version }, from)));
          const won = results.filter((one) => one.status === "fulfilled");
          expect(won).toHaveLength(1);
          expect(await store.readAliases("sample")).toEqual(won[0]?.value);
          etag = won[0]?.value.etag;
        }
      });

      it.each([["{oops"], ['{"stable":0}'], ['{"STABLE":1}'], ["[]"]])("refuses %s", async (text) => {
        await put(layout.aliases("sample"), text);
        await expect(store.readAliases("sample")).rejects.toMatchObject({ code: "aliases_invalid", status: 503 });
      });
    });
  });
}

/** A store that sends its bodies without telling their length, as a chunked answer does. */
function withoutSizes(objects: ObjectStore): ObjectStore {
  return {
    ...objects,
    async get(key, signal) {
      const found = await objects.get(key, signal);
      return found === undefined ? undefined : { ...found, size: undefined };
    },
  };
}
