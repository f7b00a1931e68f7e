// What every ModelStore must do, over whichever ObjectStore driver. No imports from Node: it runs in workerd as well.
import { beforeEach, describe, expect, it } from "vitest";
import type { DeployedEngine } from "../../src/registry/deployed-engine.ts";
import { ManualClock } from "../../src/core/clock.ts";
import { storeLayout } from "../../src/registry/store-layout.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import type { ObjectStore, StoredObject } from "../../src/registry/object-store.ts";
import type { PublicKey, SigningKey } from "../../src/registry/signing-keys.ts";
import {
  ARTIFACT_REWRITE_AGE_MS,
  createModelStore,
} from "../../src/registry/object-model-store.ts";
import { sampleManifest } from "../support/sample-model.ts";
import { createTestSigningKey } from "../support/test-signing-key.ts";

const encodeText = (text: string): Uint8Array => new TextEncoder().encode(text);
const ANY_CONDITION = { kind: "any" } as const;
const ABSENT_CONDITION = { kind: "absent" } as const;

/** @param fresh gives an empty object store for each test. */
export function modelStoreContract(driver: string, fresh: () => Promise<ObjectStore>): void {
  describe(`ModelStore over ${driver}`, () => {
    let objects: ObjectStore;
    let store: ModelStore;
    beforeEach(async () => {
      objects = await fresh();
      store = createModelStore(objects);
    });
    const put = (key: string, text: string) =>
      objects.put(key, encodeText(text), ANY_CONDITION, "text/plain");

    const text = async (found: StoredObject | undefined): Promise<string> =>
      found === undefined ? "(nothing)" : await new Response(found.body).text();

    describe("objects", () => {
      it("gives back what was put, its size, its etag and its time", async () => {
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
        expect(Math.abs((found?.modifiedAtMs ?? 0) - beforeMs)).toBeLessThan(5_000); // stores tell whole seconds
        expect(await text(found)).toBe("hello");
        expect(await objects.exists("a/b.txt")).toBe(true);
      });

      it("knows that an object is not there", async () => {
        expect(await objects.get("a/nothing")).toBeUndefined();
        expect(await objects.exists("a/nothing")).toBe(false);
        expect(await objects.list("a/")).toEqual([]);
      });

      it("puts only where nothing is, if asked to", async () => {
        expect((await objects.put("k", encodeText("1"), ABSENT_CONDITION, "text/plain")).kind).toBe(
          "written",
        );
        expect((await objects.put("k", encodeText("2"), ABSENT_CONDITION, "text/plain")).kind).toBe(
          "precondition-failed",
        );
        expect(await text(await objects.get("k"))).toBe("1");
      });

      it("replaces only what has the etag, if asked to", async () => {
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
        expect(await text(await objects.get("k"))).toBe("2");
        expect(await objects.exists("elsewhere")).toBe(false);
      });

      it("lets one of many concurrent writers win", async () => {
        const results = await Promise.all(
          Array.from({ length: 8 }, (_, index) =>
            objects.put("race", encodeText(`${index}`), ABSENT_CONDITION, "text/plain"),
          ),
        );
        expect(results.filter((one) => one.kind === "written")).toHaveLength(1);
        expect(await text(await objects.get("race"))).toBe(
          `${results.findIndex((one) => one.kind === "written")}`,
        );
      });

      it("lists by prefix, sorted", async () => {
        for (const key of ["p/b", "p/a/x", "pq", "o/z", "p/c"]) await put(key, "x");
        const listed = await objects.list("p/");
        expect(listed.map(({ key, size }) => [key, size])).toEqual([
          ["p/a/x", 1],
          ["p/b", 1],
          ["p/c", 1],
        ]);
        expect(
          listed.every(({ modifiedAtMs }) => Math.abs(modifiedAtMs - Date.now()) < 60_000),
        ).toBe(true);
      });

      it("deletes one object, and nothing where there is none", async () => {
        for (const key of ["d/a", "d/ab"]) await put(key, "x");
        await objects.delete("d/a");
        await objects.delete("d/a");
        await objects.delete("d/never");
        expect((await objects.list("d/")).map(({ key }) => key)).toEqual(["d/ab"]);
        expect(
          (await objects.put("d/a", encodeText("y"), ABSENT_CONDITION, "text/plain")).kind,
        ).toBe("written");
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
        const bytes = encodeText("weights");
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
        expect(
          read.every((byte, index) => byte === bytes[index]) &&
            read.byteLength === bytes.byteLength,
        ).toBe(true);
      });

      it.each([
        ["with a flipped byte", "weighus"],
        ["truncated", "weig"],
        ["larger than promised", "weights and more"],
        ["empty", ""],
      ])(
        "refuses one %s, also where the store tells no size, and publishing repairs it",
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

      it("writes an old one again, so that it is not taken for garbage, and says that it was there", async () => {
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

      it("knows which are there", async () => {
        const { ref } = await store.writeArtifact(encodeText("weights"));
        expect(await store.hasArtifact(ref)).toBe(true);
        expect(await store.hasArtifact({ sha256: "0".repeat(64), size: 3 })).toBe(false);
      });

      it("refuses a missing one", async () => {
        await expect(store.readArtifact({ sha256: "0".repeat(64), size: 3 })).rejects.toMatchObject(
          { code: "artifact_corrupt" },
        );
      });

      it("refuses one whose size the manifest promises wrongly", async () => {
        const { ref } = await store.writeArtifact(encodeText("weights"));
        for (const size of [ref.size - 1, ref.size + 1]) {
          await expect(store.readArtifact({ ...ref, size })).rejects.toMatchObject({
            code: "artifact_corrupt",
          });
        }
      });

      it("opens one: the bytes as they are stored, for the caller to verify", async () => {
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

      it("opens none that is missing, or whose size is not as promised", async () => {
        await expect(
          store.streamArtifact({ sha256: "0".repeat(64), size: 3 }),
        ).rejects.toMatchObject({ code: "artifact_corrupt", status: 503 });
        const { ref } = await store.writeArtifact(encodeText("weights"));
        for (const size of [ref.size - 1, ref.size + 1]) {
          await expect(store.streamArtifact({ ...ref, size })).rejects.toMatchObject({
            code: "artifact_corrupt",
            detail: expect.stringContaining(`has ${ref.size} bytes`),
          });
        }
        const opened = await createModelStore(withoutSizes(objects)).streamArtifact({
          ...ref,
          size: 1,
        }); // nothing can be told before it is read
        expect(await new Response(opened).text()).toBe("weights");
      });

      it("gives up opening one when aborted", async () => {
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
        await put(storeLayout.deployedEngine, text);
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
        await put(storeLayout.manifest("sample", 1), text);
        await expect(store.readManifest("sample", 1)).rejects.toMatchObject({
          code: "manifest_invalid",
          status: 503,
        });
      });

      it("refuses one that is absurdly large", async () => {
        await put(storeLayout.manifest("sample", 1), `{"x":"${"y".repeat(1_100_000)}"}`);
        await expect(store.readManifest("sample", 1)).rejects.toMatchObject({
          code: "manifest_invalid",
        });
      });

      it("lists models and versions in order, and nothing else", async () => {
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

      it("are read where one of their keys is trusted, and say who signed them", async () => {
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

      it("are read, too, where no keys are configured", async () => {
        await signing(own).writeManifest(sampleManifest(1));
        expect(await store.readManifest("sample", 1)).toEqual(sampleManifest(1));
        expect(await store.readSignedManifest("sample", 1)).toMatchObject({
          signedBy: [own?.id],
          isVerified: false,
        });
      });

      it("are refused by name: unsigned, by another key, or by nobody who is trusted", async () => {
        await store.writeManifest(sampleManifest(1));
        await signing(other).writeManifest(sampleManifest(2));
        const refusal = (reason: string) => ({
          code: "manifest_untrusted",
          status: 503,
          detail: expect.stringContaining(reason),
        });
        await expect(trusting(own).readManifest("sample", 1)).rejects.toMatchObject(
          refusal("sample@1 is not trusted: it is not signed"),
        );
        await expect(trusting(own).readManifest("sample", 2)).rejects.toMatchObject(
          refusal(`signed by ${other?.id}; trusted are ${own?.id}`),
        );
        await expect(trusting().readManifest("sample", 2)).rejects.toMatchObject(
          refusal(`signed by ${other?.id}`),
        );
      });

      it("are refused under another number or name than the one that was signed", async () => {
        await signing(own).writeManifest(sampleManifest(1));
        const file = await text(await objects.get(storeLayout.manifest("sample", 1)));
        await put(storeLayout.manifest("sample", 2), file);
        await put(storeLayout.manifest("other", 1), file);
        await expect(trusting(own).readManifest("sample", 2)).rejects.toMatchObject({
          code: "manifest_invalid",
        });
        await expect(trusting(own).readManifest("other", 1)).rejects.toMatchObject({
          code: "manifest_invalid",
        });
      });

      it("are refused with another's signature under a trusted id, or a wrong one beside a right one", async () => {
        await signing(own, other).writeManifest(sampleManifest(1));
        await signing(own, other).writeManifest({ ...sampleManifest(2), description: "changed" });
        const [one, two] = await Promise.all(
          [1, 2].map(async (version) =>
            JSON.parse(await text(await objects.get(storeLayout.manifest("sample", version)))),
          ),
        );
        const mixed = { ...one, signatures: [one.signatures[0], two.signatures[1]] };
        await put(storeLayout.manifest("sample", 1), `${JSON.stringify(mixed)}\n`);
        expect(await trusting(own).readManifest("sample", 1)).toEqual(sampleManifest(1));
        await expect(trusting(own, other).readManifest("sample", 1)).rejects.toMatchObject({
          code: "manifest_untrusted",
          detail: expect.stringContaining(`${other?.id} is of something else`),
        });
      });

      it("never change either: signing the same content again is a no-op, other content is refused", async () => {
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

      it("are not written by a publisher whom nobody would believe", async () => {
        const refused = { code: "would_not_be_trusted", status: 400 };
        await expect(trusting(own).writeManifest(sampleManifest(1))).rejects.toMatchObject(refused);
        await expect(
          createModelStore(objects, {
            trustedKeys: publicKeysOf(own),
            signingKeys: keysOf(other),
          }).writeManifest(sampleManifest(1)),
        ).rejects.toMatchObject(refused);
        expect(await store.listVersions("sample")).toEqual([]);
      });
    });

    describe("aliases", () => {
      it("changes them only from what was read", async () => {
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

      it("lets exactly one of many concurrent writers win, the first time and later", async () => {
        let etag: string | undefined;
        for (let round = 1; round <= 3; round++) {
          const from = etag;
          const results = await Promise.allSettled(
            [1, 2, 3, 4, 5].map((version) =>
              store.writeAliases("sample", { stable: 10 * round + version }, from),
            ),
          );
          const won = results.filter((one) => one.status === "fulfilled");
          expect(won).toHaveLength(1);
          expect(await store.readAliases("sample")).toEqual(won[0]?.value);
          etag = won[0]?.value.etag;
        }
      });

      it.each([["{oops"], ['{"stable":0}'], ['{"STABLE":1}'], ["[]"]])(
        "refuses %s",
        async (text) => {
          await put(storeLayout.aliases("sample"), text);
          await expect(store.readAliases("sample")).rejects.toMatchObject({
            code: "aliases_invalid",
            status: 503,
          });
        },
      );
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
