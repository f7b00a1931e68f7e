import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
// Model catalog: aliases, fallback to earlier versions, and canaries.
import { coreErrors } from "../../src/core/common-errors.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import type { Aliases } from "../../src/registry/manifest.ts";
import { parseModelRef } from "../../src/registry/model-ref.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import { storeLayout } from "../../src/registry/store-layout.ts";
import { chooseCanary } from "../../src/serving/canary.ts";
import {
  type ModelCatalog,
  createModelCatalog,
  type RejectedVersion,
} from "../../src/serving/model-catalog.ts";
import { createRequestContext } from "../support/request-context.ts";
import { sampleManifest } from "../support/sample-model.ts";
import { createTestSigningKey } from "../support/test-signing-key.ts";

const TTL_MS = 10_000;

let clock: ManualClock;
let objects: ObjectStore;
/** Store of a publisher that the catalog trusts. */
let store: ModelStore;
let rejections: RejectedVersion[];
/** Keys of the objects that the catalog has read. */
let readKeys: string[];
/** Key of the object that cannot be read. */
let unavailable: string | undefined;
let catalog: ModelCatalog;
let startIsolate: () => ModelCatalog;

beforeEach(async () => {
  clock = new ManualClock(1_000_000);
  objects = createMemoryObjectStore();
  const key = await createTestSigningKey();
  store = createModelStore(objects, { signingKeys: [key] });
  rejections = [];
  readKeys = [];
  unavailable = undefined;
  const reading: ObjectStore = {
    ...objects,
    async get(name, signal) {
      readKeys.push(name);
      if (name === unavailable) throw coreErrors.storeUnavailable("connection refused");
      return await objects.get(name, signal);
    },
  };
  startIsolate = () =>
    createModelCatalog({
      store: createModelStore(reading, { trustedKeys: [key.publicKey] }),
      clock,
      aliasTtlMs: TTL_MS,
      storeTimeoutMs: 1_000,
      onVersionRejected: (rejection) => rejections.push(rejection),
    });
  catalog = startIsolate();
  await store.writeManifest(sampleManifest(1));
});

async function setAliases(aliases: Aliases): Promise<void> {
  await store.writeAliases("sample", aliases, (await store.readAliases("sample"))?.etag);
  clock.advance(2 * TTL_MS);
}

const publishUnsigned = () => createModelStore(objects).writeManifest(sampleManifest(2));
const resolveVersion = async (ref: string, from = catalog) =>
  (await from.resolve(parseModelRef(ref), createRequestContext(clock))).manifest.version;
const selectVersion = async (requestId: string, from = catalog) =>
  (await from.resolveForRequest(parseModelRef("sample"), createRequestContext(clock, requestId)))
    .manifest.version;

describe("an alias whose version is untrusted", () => {
  it("keeps the version served last, and reports it once", async () => {
    await setAliases({ stable: 1 });
    expect(await resolveVersion("sample")).toBe(1);
    await publishUnsigned();
    await setAliases({ stable: 2 });
    for (let request = 0; request < 3; request++) expect(await resolveVersion("sample")).toBe(1);
    expect(rejections).toMatchObject([
      {
        model: "sample",
        alias: "stable",
        version: 2,
        servedVersion: 1,
        error: { code: "manifest_untrusted" },
      },
    ]);
  });

  it("does not read the version again in every request, and serves the next one", async () => {
    await setAliases({ stable: 1 });
    await resolveVersion("sample");
    await publishUnsigned();
    await setAliases({ stable: 2 });
    for (let request = 0; request < 3; request++) await resolveVersion("sample");
    expect(readKeys.filter((key) => key === storeLayout.manifest("sample", 2))).toHaveLength(1);
    await store.writeManifest(sampleManifest(3));
    await setAliases({ stable: 3 });
    expect(await resolveVersion("sample")).toBe(3);
  });

  it("falls back to its previous version in a new isolate", async () => {
    await publishUnsigned();
    await setAliases({ stable: { version: 2, previous: [9, 1] } });
    expect(await resolveVersion("sample", startIsolate())).toBe(1);
    expect(rejections).toMatchObject([{ version: 2, servedVersion: 1 }]);
  });

  it("is rejected without a previous version, and always by version number", async () => {
    await publishUnsigned();
    await setAliases({ stable: 2 });
    await expect(resolveVersion("sample")).rejects.toMatchObject({ code: "manifest_untrusted" });
    await setAliases({ stable: 1 });
    expect(await resolveVersion("sample")).toBe(1);
    await expect(resolveVersion("sample@2")).rejects.toMatchObject({ code: "manifest_untrusted" });
  });
});

describe("an alias whose version cannot be read", () => {
  it("keeps the version served last if the new one does not exist", async () => {
    await setAliases({ stable: 1 });
    await resolveVersion("sample");
    await setAliases({ stable: 7 });
    expect(await resolveVersion("sample")).toBe(1);
    expect(rejections).toMatchObject([{ version: 7, error: { code: "version_not_found" } }]);
    await store.writeManifest(sampleManifest(7));
    clock.advance(TTL_MS);
    expect(await resolveVersion("sample")).toBe(7);
  });

  it("keeps the version served last while the store is unavailable, with one read", async () => {
    await setAliases({ stable: 1 });
    await resolveVersion("sample");
    await store.writeManifest(sampleManifest(2));
    await setAliases({ stable: 2 });
    unavailable = storeLayout.manifest("sample", 2);
    for (let request = 0; request < 3; request++) expect(await resolveVersion("sample")).toBe(1);
    expect(readKeys.filter((key) => key === unavailable)).toHaveLength(1);
    unavailable = undefined;
    clock.advance(TTL_MS);
    expect(await resolveVersion("sample")).toBe(2);
  });
});

const requests = Array.from({ length: 1_000 }, (_, index) => `request ${index}`);

describe("a canary", () => {
  beforeEach(async () => {
    await store.writeManifest(sampleManifest(2));
  });

  it("serves its share of requests to the default alias, the same for a repeated request", async () => {
    await setAliases({ stable: 1, canary: { version: 2, weight: 0.2 } });
    for (const ref of ["sample", "sample@canary"]) await resolveVersion(ref); // fills the caches first
    const versions = await Promise.all(requests.map((id) => selectVersion(id)));
    const share = versions.filter((version) => version === 2).length / requests.length;
    expect(share).toBeGreaterThan(0.15); // 4 standard deviations
    expect(share).toBeLessThan(0.25);
    const otherIsolate = startIsolate();
    expect(await Promise.all(requests.map((id) => selectVersion(id, otherIsolate)))).toEqual(
      versions,
    );
  });

  it("keeps its requests when its share grows", async () => {
    await setAliases({ stable: 1, canary: { version: 2, weight: 0.1 } });
    const before = await Promise.all(requests.map((id) => selectVersion(id)));
    await setAliases({ stable: 1, canary: { version: 2, weight: 0.3 } });
    const after = await Promise.all(requests.map((id) => selectVersion(id)));
    expect(requests.filter((_, index) => before[index] === 2 && after[index] === 1)).toEqual([]);
  });

  it("serves no request with weight 0, and all with weight 1", async () => {
    await setAliases({ stable: 1, canary: { version: 2, weight: 0 } });
    expect(
      new Set(await Promise.all(requests.slice(0, 200).map((id) => selectVersion(id)))),
    ).toEqual(new Set([1]));
    await setAliases({ stable: 1, canary: { version: 2, weight: 1 } });
    expect(
      new Set(await Promise.all(requests.slice(0, 200).map((id) => selectVersion(id)))),
    ).toEqual(new Set([2]));
  });
});

describe("a canary next to other aliases", () => {
  beforeEach(async () => {
    await store.writeManifest(sampleManifest(2));
  });

  it("serves no requests to other aliases or versions, and no metadata requests", async () => {
    await setAliases({ stable: 1, canary: { version: 2, weight: 1 }, night: 1 });
    expect(
      (await catalog.resolveForRequest(parseModelRef("sample@night"), createRequestContext(clock)))
        .manifest.version,
    ).toBe(1);
    expect(
      (await catalog.resolveForRequest(parseModelRef("sample@1"), createRequestContext(clock)))
        .manifest.version,
    ).toBe(1);
    expect(await resolveVersion("sample")).toBe(1);
    expect(await resolveVersion("sample@canary")).toBe(2);
  });

  it("leaves all requests to the default alias if it is untrusted", async () => {
    await createModelStore(objects).writeManifest(sampleManifest(3));
    await setAliases({ stable: 1, canary: { version: 3, weight: 1 } });
    for (const id of requests.slice(0, 3)) expect(await selectVersion(id)).toBe(1);
    expect(rejections).toMatchObject([
      { alias: "canary", version: 3, servedVersion: 1, error: { code: "manifest_untrusted" } },
    ]);
    expect(readKeys.filter((key) => key === storeLayout.manifest("sample", 3))).toHaveLength(1);
  });

  it("shares requests with other canaries by weight", async () => {
    const aliases: Aliases = {
      stable: 1,
      a: { version: 2, weight: 0.5 },
      b: { version: 3, weight: 0.5 },
      c: { version: 4, weight: 0.5 },
    };
    const chosen = await Promise.all(requests.map((id) => chooseCanary(aliases, id)));
    const count = (alias: string | undefined) =>
      chosen.filter((canary) => canary?.alias === alias).length;
    expect(count("a") + count("b")).toBe(requests.length); // weights beyond 1 in total are cut off
    expect(Math.abs(count("a") - count("b"))).toBeLessThan(125);
  });
});
