// Contract of ModelStore over every ObjectStore driver. It has no Node imports, because it also runs in workerd. The file
// exceeds 300 lines because it is one suite, which every driver runs as a whole.
/* oxlint-disable max-lines-per-function -- a contract is one suite, whose cases share the fixture of a driver */
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import type { DeployedEngine } from "../../src/registry/deployed-engine.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import {
  ARTIFACT_REWRITE_AGE_MS,
  createModelStore,
} from "../../src/registry/object-model-store.ts";
import type { ObjectStore, StoredObject } from "../../src/registry/object-store.ts";
import type { PublicKey, SigningKey } from "../../src/registry/signing-keys.ts";
import { storeLayout } from "../../src/registry/store-layout.ts";
import { sampleManifest } from "../support/sample-model.ts";
import { createTestSigningKey } from "../support/test-signing-key.ts";

const encodeText = (text: string): Uint8Array => new TextEncoder().encode(text);
const ANY_CONDITION = { kind: "any" } as const;
const ABSENT_CONDITION = { kind: "absent" } as const;

/** @param createEmpty creates an empty object store for each test */
export function modelStoreContract(driver: string, createEmpty: () => Promise<ObjectStore>): void {
  describe(`ModelStore over ${driver}`, () => {
    let objects: ObjectStore;
    let store: ModelStore;
    beforeEach(async () => {
      objects = await createEmpty();
      store = createModelStore(objects);
    });
    const put = (key: string, text: string) =>
      objects.put(key, encodeText(text), ANY_CONDITION, "text/plain");

    const readText = async (found: StoredObject | undefined): Promise<string> =>
      found === undefined ? "(nothing)" : await new Response(found.body).text();

    describe("objects", () => {
      it("returns stored bytes with their size, etag and time", async () => {
        const beforeMs = Date.now();
        const written = await objects.put(
          "a/b.txt",
          encodeText("hello"),
          ANY_CONDITION,
          "text/plain",
        );
        const found = await objects.get("a/b.txt");
        expect(found).toMatchObject({
          size: 5,
          etag: written.kind === "written" ? written.etag : "-",
        });
        // Stores report whole seconds.
        expect(Math.abs((found?.modifiedAtMs ?? 0) - beforeMs)).toBeLessThan(5_000);
        expect(await readText(found)).toBe("hello");
        expect(await objects.exists("a/b.txt")).toBe(true);
      });

      it("reports a missing object", async () => {
        expect(await objects.get("a/nothing")).toBeUndefined();
        expect(await objects.exists("a/nothing")).toBe(false);
        expect(await objects.list("a/")).toEqual([]);
      });

      it("does not overwrite with the condition `absent`", async () => {
        expect((await objects.put("k", encodeText("1"), ABSENT_CONDITION, "text/plain")).kind).toBe(
          "written",
        );
        expect((await objects.put("k", encodeText("2"), ABSENT_CONDITION, "text/plain")).kind).toBe(
          "precondition-failed",
        );
        expect(await readText(await objects.get("k"))).toBe("1");
      });

      it("replaces only the object with the etag of the condition", async () => {
        const first = await objects.put("k", encodeText("1"), ANY_CONDITION, "text/plain");
        if (first.kind !== "written") throw new Error("not written");
        const condition = { kind: "etag", etag: first.etag } as const;
        expect((await objects.put("k", encodeText("2"), condition, "text/plain")).kind).toBe(
          "written",
        );
        expect((await objects.put("k", encodeText("3"), condition, "text/plain")).kind).toBe(
          "precondition-failed",
        );
        expect(
          (await objects.put("elsewhere", encodeText("3"), condition, "text/plain")).kind,
        ).toBe("precondition-failed");
        expect(await readText(await objects.get("k"))).toBe("2");
        expect(await objects.exists("elsewhere")).toBe(false);
      });

      it("lets exactly one of many concurrent writers win", async () => {
        const results = await Promise.all(
          Array.from({ length: 8 }, (_, index) =>
            objects.put("race", encodeText(`${index}`), ABSENT_CONDITION, "text/plain"),
          ),
        );
        expect(results.filter(({ kind }) => kind === "written")).toHaveLength(1);
        expect(await readText(await objects.get("race"))).toBe(
          `${results.findIndex(({ kind }) => kind === "written")}`,
        );
      });

      it("lists by prefix, sorted", async () => {
        for (const key of ["p/b", "p/a/x", "pq", "o/z", "p/c"]) await put(key, "x");
        const listed = await objects.list("p/");
        expect(listed).toMatchObject([
          { key: "p/a/x", size: 1 },
          { key: "p/b", size: 1 },
          { key: "p/c", size: 1 },
        ]);
        expect(
          listed.every(({ modifiedAtMs }) => Math.abs(modifiedAtMs - Date.now()) < 60_000),
        ).toBe(true);
      });

      it("deletes one object, and ignores a missing one", async () => {
        for (const key of ["d/a", "d/ab"]) await put(key, "x");
        await objects.delete("d/a");
        await objects.delete("d/a");
        await objects.delete("d/never");
        expect((await objects.list("d/")).map(({ key }) => key)).toEqual(["d/ab"]);
        expect(
          (await objects.put("d/a", encodeText("y"), ABSENT_CONDITION, "text/plain")).kind,
        ).toBe("written");
      });

      it("stops on abort", async () => {
        await put("k", "x");
        await expect(
          objects.get("k", AbortSignal.abort()).then((found) => new Response(found?.body).text()),
        ).rejects.toThrow(/abort/i);
      });
    });

    describe("artifacts", () => {
      it("returns a written artifact, and stores it once", async () => {
        const bytes = encodeText("weights");
        const first = await store.writeArtifact(bytes);
        expect(first.created).toBe(true);
        expect((await store.writeArtifact(bytes)).created).toBe(false);
        expect(await store.readArtifact(first.ref)).toEqual(bytes);
      });

      it("preserves every byte of a megabyte", async () => {
        const bytes = Uint8Array.from({ length: 1_048_577 }, (_, index) => (index * 31) & 0xff);
        const { ref } = await store.writeArtifact(bytes);
        expect(ref.size).toBe(1_048_577);
        const read = await store.readArtifact(ref);
        expect(read.byteLength).toBe(bytes.byteLength);
        expect(read.findIndex((byte, index) => byte !== bytes[index])).toBe(-1);
      });

      it.each([
        ["with a flipped byte", "weighus"],
        ["truncated", "weig"],
        ["larger than its reference", "weights and more"],
        ["empty", ""],
      ])(
        "rejects one %s, also without a reported size, and publishing repairs it",
        async (_, damaged) => {
          const { ref } = await store.writeArtifact(encodeText("weights"));
          await put(storeLayout.artifact(ref.sha256), damaged);
          await expect(store.readArtifact(ref)).rejects.toMatchObject({
            code: "artifact_corrupt",
            status: 503,
          });
          await expect(
            createModelStore(withoutSizes(objects)).readArtifact(ref),
          ).rejects.toMatchObject({ code: "artifact_corrupt" });
          expect((await store.writeArtifact(encodeText("weights"))).created).toBe(true);
          expect(await store.readArtifact(ref)).toEqual(encodeText("weights"));
        },
      );

      it("rewrites an old one, which protects it from garbage collection, and reports that it existed", async () => {
        const { ref } = await store.writeArtifact(encodeText("weights"));
        const later = new ManualClock(Date.now() + ARTIFACT_REWRITE_AGE_MS + 60_000);
        const puts: string[] = [];
        const recording: ObjectStore = {
          ...objects,
          put: (key, ...rest) => (puts.push(key), objects.put(key, ...rest)),
        };
        await createModelStore(recording).writeArtifact(encodeText("weights"));
        expect(puts).toEqual([]);
        expect(
          await createModelStore(recording, { clock: later }).writeArtifact(encodeText("weights")),
        ).toEqual({ ref, created: false });
        expect(puts).toEqual([storeLayout.artifact(ref.sha256)]);
        expect(await store.readArtifact(ref)).toEqual(encodeText("weights"));
      });

      it("reports which ones exist", async () => {
        const { ref } = await store.writeArtifact(encodeText("weights"));
        expect(await store.hasArtifact(ref)).toBe(true);
        expect(await store.hasArtifact({ sha256: "0".repeat(64), size: 3 })).toBe(false);
      });

      it("rejects a missing one", async () => {
        await expect(store.readArtifact({ sha256: "0".repeat(64), size: 3 })).rejects.toMatchObject(
          { code: "artifact_corrupt" },
        );
      });

      it("rejects one with another size than its reference", async () => {
        const { ref } = await store.writeArtifact(encodeText("weights"));
        for (const size of [ref.size - 1, ref.size + 1]) {
          await expect(store.readArtifact({ ...ref, size })).rejects.toMatchObject({
            code: "artifact_corrupt",
          });
        }
      });

      it("streams the stored bytes without verification", async () => {
        const read = async (opened: ReadableStream<Uint8Array>) =>
          new Uint8Array(await new Response(opened).arrayBuffer());
        const bytes = Uint8Array.from({ length: 300_001 }, (_, index) => (index * 31) & 0xff);
        const { ref } = await store.writeArtifact(bytes);
        expect(await read(await store.streamArtifact(ref))).toEqual(bytes);
        const damaged = bytes.map((byte, index) => (index === 200_000 ? byte ^ 1 : byte));
        await objects.put(
          storeLayout.artifact(ref.sha256),
          damaged,
          ANY_CONDITION,
          "application/octet-stream",
        );
        expect(await read(await store.streamArtifact(ref))).toEqual(damaged);
      });

      it("does not stream a missing one, or one with another size than its reference", async () => {
        await expect(
          store.streamArtifact({ sha256: "0".repeat(64), size: 3 }),
        ).rejects.toMatchObject({ code: "artifact_corrupt", status: 503 });
        const { ref } = await store.writeArtifact(encodeText("weights"));
        for (const size of [ref.size - 1, ref.size + 1]) {
          await expect(store.streamArtifact({ ...ref, size })).rejects.toMatchObject({
            code: "artifact_corrupt",
            detail: expect.stringContaining(`${ref.size} bytes`),
          });
        }
        const opened = await createModelStore(withoutSizes(objects)).streamArtifact({
          ...ref,
          size: 1,
        });
        // Without a reported size, a mismatch is unknown before the body is read.
        expect(await new Response(opened).text()).toBe("weights");
      });

      it("stops streaming on abort", async () => {
        const { ref } = await store.writeArtifact(encodeText("weights"));
        await expect(
          store
            .streamArtifact(ref, AbortSignal.abort())
            .then((opened) => new Response(opened).text()),
        ).rejects.toThrow(/abort/i);
      });
    });

    describe("the deployed engine", () => {
      const cut: DeployedEngine = { kind: "cut", source: "ab".repeat(32), functions: "AQID" };

      it("is unknown at first, and then the last recorded one", async () => {
        expect(await store.readDeployedEngine()).toBeUndefined();
        await store.writeDeployedEngine(cut);
        expect(await store.readDeployedEngine()).toEqual(cut);
        await store.writeDeployedEngine({ kind: "full", source: "cd".repeat(32) });
        expect(await store.readDeployedEngine()).toEqual({ kind: "full", source: "cd".repeat(32) });
        expect(await store.listModels()).toEqual([]);
      });

      it.each([
        ["that is not JSON", "{oops"],
        ["with an unknown kind", JSON.stringify({ ...cut, kind: "split" })],
        ["with an unknown field", JSON.stringify({ ...cut, patches: 2 })],
        ["without its functions", JSON.stringify({ kind: "cut", source: cut.source })],
        ["whose functions are not base64", JSON.stringify({ ...cut, functions: "?" })],
        ["with an invalid digest", JSON.stringify({ ...cut, source: "latest" })],
      ])("is unknown from a record %s, which can be overwritten", async (_, record) => {
        await put(storeLayout.deployedEngine, record);
        expect(await store.readDeployedEngine()).toBeUndefined();
        await store.writeDeployedEngine(cut);
        expect(await store.readDeployedEngine()).toEqual(cut);
      });
    });

    describe("manifests", () => {
      it("returns a written manifest", async () => {
        expect(await store.writeManifest(sampleManifest(1))).toEqual({ created: true });
        expect(await store.readManifest("sample", 1)).toEqual(sampleManifest(1));
      });

      it("never changes one: rewriting the same content has no effect, and other content is rejected", async () => {
        await store.writeManifest(sampleManifest(1));
        expect(await store.writeManifest(sampleManifest(1))).toEqual({ created: false });
        const other = { ...sampleManifest(1), description: "changed" };
        await expect(store.writeManifest(other)).rejects.toMatchObject({
          code: "version_exists",
          status: 409,
        });
        expect(await store.readManifest("sample", 1)).toEqual(sampleManifest(1));
      });

      it("lets one of two concurrent publishers of different content win", async () => {
        const results = await Promise.allSettled(
          ["a", "b"].map((description) =>
            store.writeManifest({ ...sampleManifest(1), description }),
          ),
        );
        expect(results.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
      });

      it("reports a missing version", async () => {
        expect(await store.readManifest("sample", 7)).toBeUndefined();
        expect(await store.listVersions("sample")).toEqual([]);
        expect(await store.readAliases("sample")).toBeUndefined();
      });

      it.each([
        ["not JSON", "{oops"],
        ["not UTF-8", "\ud800"], // encoded as U+FFFD, which is also invalid JSON
        ["another shape", '{"schemaVersion":99}'],
        ["another version", JSON.stringify(sampleManifest(2))],
      ])("rejects a manifest that is %s", async (_, text) => {
        await put(storeLayout.manifest("sample", 1), text);
        await expect(store.readManifest("sample", 1)).rejects.toMatchObject({
          code: "manifest_invalid",
          status: 503,
        });
      });

      it("rejects one beyond the size limit", async () => {
        await put(storeLayout.manifest("sample", 1), `{"x":"${"y".repeat(1_100_000)}"}`);
        await expect(store.readManifest("sample", 1)).rejects.toMatchObject({
          code: "manifest_invalid",
        });
      });

      it("lists only models and versions, in order", async () => {
        for (const version of [10, 2, 1]) await store.writeManifest(sampleManifest(version));
        await store.writeManifest({ ...sampleManifest(1), model: "another" });
        await store.writeAliases("aliases-only", { stable: 1 }, undefined);
        for (const stray of [
          "models/sample/versions/0.json",
          "models/sample/versions/x.json",
          "models/UPPER/versions/1.json",
          "models/README",
        ])
          await put(stray, "{}");
        expect(await store.listModels()).toEqual(["another", "sample"]);
        expect(await store.listVersions("sample")).toEqual([1, 2, 10]);
      });
    });

    describe("signed manifests", () => {
      let [own, other]: SigningKey[] = [];
      beforeEach(async () => {
        [own, other] = await Promise.all([createTestSigningKey(), createTestSigningKey()]);
      });
      const keysOf = (...keys: (SigningKey | undefined)[]) =>
        keys.filter((key) => key !== undefined);
      const publicKeysOf = (...keys: (SigningKey | undefined)[]): PublicKey[] =>
        keysOf(...keys).map(({ publicKey }) => publicKey);
      const signing = (...keys: (SigningKey | undefined)[]) =>
        createModelStore(objects, { signingKeys: keysOf(...keys) });
      const trusting = (...keys: (SigningKey | undefined)[]) =>
        createModelStore(objects, { trustedKeys: publicKeysOf(...keys) });

      it("are readable if one of their keys is trusted, and report their signers", async () => {
        await signing(own, other).writeManifest(sampleManifest(1));
        for (const trusted of [trusting(own), trusting(other), trusting(own, other)]) {
          expect(await trusted.readSignedManifest("sample", 1)).toEqual({
            manifest: sampleManifest(1),
            signedBy: [own?.id, other?.id],
            isVerified: true,
          });
        }
        expect(
          await trusting(await createTestSigningKey(), other).readManifest("sample", 1),
        ).toEqual(sampleManifest(1));
      });

      it("are readable without configured keys", async () => {
        await signing(own).writeManifest(sampleManifest(1));
        expect(await store.readManifest("sample", 1)).toEqual(sampleManifest(1));
        expect(await store.readSignedManifest("sample", 1)).toMatchObject({
          signedBy: [own?.id],
          isVerified: false,
        });
      });

      it("are rejected if they are unsigned or signed by untrusted keys", async () => {
        await store.writeManifest(sampleManifest(1));
        await signing(other).writeManifest(sampleManifest(2));
        const untrusted = (...values: (string | undefined)[]) => ({
          code: "manifest_untrusted",
          status: 503,
          detail: expect.stringMatching(new RegExp(values.join(".*"))),
        });
        await expect(trusting(own).readManifest("sample", 1)).rejects.toMatchObject(
          untrusted("sample@1", "no signature"),
        );
        await expect(trusting(own).readManifest("sample", 2)).rejects.toMatchObject(
          untrusted("sample@2", other?.id, own?.id),
        );
        await expect(trusting().readManifest("sample", 2)).rejects.toMatchObject(
          untrusted("sample@2", other?.id),
        );
      });

      it("are rejected under another version or model name", async () => {
        await signing(own).writeManifest(sampleManifest(1));
        const file = await readText(await objects.get(storeLayout.manifest("sample", 1)));
        await put(storeLayout.manifest("sample", 2), file);
        await put(storeLayout.manifest("other", 1), file);
        await expect(trusting(own).readManifest("sample", 2)).rejects.toMatchObject({
          code: "manifest_invalid",
        });
        await expect(trusting(own).readManifest("other", 1)).rejects.toMatchObject({
          code: "manifest_invalid",
        });
      });

      it("are rejected if one of several trusted signatures is invalid", async () => {
        await signing(own, other).writeManifest(sampleManifest(1));
        await signing(own, other).writeManifest({ ...sampleManifest(2), description: "changed" });
        const [first, second] = await Promise.all(
          [1, 2].map(async (version) =>
            JSON.parse(await readText(await objects.get(storeLayout.manifest("sample", version)))),
          ),
        );
        const mixed = { ...first, signatures: [first.signatures[0], second.signatures[1]] };
        await put(storeLayout.manifest("sample", 1), `${JSON.stringify(mixed)}\n`);
        expect(await trusting(own).readManifest("sample", 1)).toEqual(sampleManifest(1));
        await expect(trusting(own, other).readManifest("sample", 1)).rejects.toMatchObject({
          code: "manifest_untrusted",
          detail: expect.stringContaining(String(other?.id)),
        });
      });

      it("never change: rewriting the same content has no effect, and other content is rejected", async () => {
        const publisher = createModelStore(objects, {
          signingKeys: keysOf(own),
          trustedKeys: publicKeysOf(own),
        });
        expect(await publisher.writeManifest(sampleManifest(1))).toEqual({ created: true });
        expect(await publisher.writeManifest(sampleManifest(1))).toEqual({ created: false });
        await expect(
          publisher.writeManifest({ ...sampleManifest(1), description: "changed" }),
        ).rejects.toMatchObject({ code: "version_exists" });
        const successor = createModelStore(objects, {
          signingKeys: keysOf(other),
          trustedKeys: publicKeysOf(other),
        });
        await expect(successor.writeManifest(sampleManifest(1))).rejects.toMatchObject({
          code: "version_exists",
        });
      });

      it("are not written without a trusted signature", async () => {
        const rejection = { code: "would_not_be_trusted", status: 400 };
        await expect(trusting(own).writeManifest(sampleManifest(1))).rejects.toMatchObject(
          rejection,
        );
        await expect(
          createModelStore(objects, {
            trustedKeys: publicKeysOf(own),
            signingKeys: keysOf(other),
          }).writeManifest(sampleManifest(1)),
        ).rejects.toMatchObject(rejection);
        expect(await store.listVersions("sample")).toEqual([]);
      });
    });

    describe("aliases", () => {
      it("change only from the state that was read", async () => {
        const first = await store.writeAliases("sample", { stable: 1 }, undefined);
        const second = await store.writeAliases(
          "sample",
          { stable: { version: 1, previous: [4, 3] }, canary: { version: 2, weight: 0.05 } },
          first.etag,
        );
        expect(await store.readAliases("sample")).toEqual(second);
        await expect(store.writeAliases("sample", { stable: 9 }, first.etag)).rejects.toMatchObject(
          { code: "alias_conflict", status: 409 },
        );
        await expect(store.writeAliases("sample", { stable: 9 }, undefined)).rejects.toMatchObject({
          code: "alias_conflict",
        });
        expect((await store.readAliases("sample"))?.aliases).toEqual({
          stable: { version: 1, previous: [4, 3] },
          canary: { version: 2, weight: 0.05 },
        });
      });

      it("let exactly one of many concurrent writers win, in every round", async () => {
        let etag: string | undefined;
        for (let round = 1; round <= 3; round++) {
          const from = etag;
          const results = await Promise.allSettled(
            [1, 2, 3, 4, 5].map((version) =>
              store.writeAliases("sample", { stable: 10 * round + version }, from),
            ),
          );
          const winners = results.filter((result) => result.status === "fulfilled");
          expect(winners).toHaveLength(1);
          expect(await store.readAliases("sample")).toEqual(winners[0]?.value);
          etag = winners[0]?.value.etag;
        }
      });

      it.each([["{oops"], ['{"stable":0}'], ['{"STABLE":1}'], ["[]"]])(
        "are rejected if the file is %s",
        async (file) => {
          await put(storeLayout.aliases("sample"), file);
          await expect(store.readAliases("sample")).rejects.toMatchObject({
            code: "aliases_invalid",
            status: 503,
          });
        },
      );
    });
  });
}

/** Wraps a store so that it does not report sizes, like a chunked response. */
function withoutSizes(objects: ObjectStore): ObjectStore {
  return {
    ...objects,
    async get(key, signal) {
      const found = await objects.get(key, signal);
      return found === undefined ? undefined : { ...found, size: undefined };
    },
  };
}
