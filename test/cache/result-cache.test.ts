import { describe, expect, it } from "vitest";
import type { CacheLayer, CacheLayerName } from "../../src/cache/cache-policy.ts";
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import { createResultCache, createJsonCodec } from "../../src/cache/result-cache.ts";
import { systemClock } from "../../src/core/clock.ts";

const createLayer = (name: CacheLayerName): CacheLayer => ({
  name,
  store: createLruCache({ maxBytes: 1_000_000, clock: systemClock }),
  ttlSeconds: 60,
});
const codec = createJsonCodec((value) => (typeof value === "string" ? value : undefined));
const NO_TENANT = "";

describe("the result cache", () => {
  it("reads L1, then the CDN, then L2, and backfills earlier layers from later ones", async () => {
    const [cdn, l2] = [createLayer("cdn"), createLayer("l2")];
    const elsewhere = createResultCache([createLayer("l1"), createLayer("cdn"), l2], codec);
    await elsewhere.write([{ key: "a", value: "A" }], NO_TENANT);
    expect(await elsewhere.read(["a"], NO_TENANT)).toEqual({ values: ["A"], status: "l1" });

    const here = createResultCache([createLayer("l1"), cdn, l2], codec);
    const { values, status, backfill } = await here.read(["a"], NO_TENANT);
    await backfill;
    expect({ values, status }).toEqual({ values: ["A"], status: "l2" });
    expect(await here.read(["a"], NO_TENANT)).toEqual({ values: ["A"], status: "l1" });
    expect(
      await createResultCache([createLayer("l1"), cdn], codec).read(["a"], NO_TENANT),
    ).toMatchObject({
      values: ["A"],
      status: "cdn",
    });
    expect(await here.read(["a", "b"], NO_TENANT)).toEqual({
      values: ["A", undefined],
      status: "miss",
    });
  });

  it("reports the slowest layer with a hit", async () => {
    const [l1, l2] = [createLayer("l1"), createLayer("l2")];
    await createResultCache([l2], codec).write([{ key: "b", value: "B" }], NO_TENANT);
    await createResultCache([l1], codec).write([{ key: "a", value: "A" }], NO_TENANT);
    expect(await createResultCache([l1, l2], codec).read(["a", "b"], NO_TENANT)).toMatchObject({
      values: ["A", "B"],
      status: "l2",
    });
  });

  it("keeps a tenant's results out of the CDN only", async () => {
    const [l1, cdn, l2] = [createLayer("l1"), createLayer("cdn"), createLayer("l2")];
    const tenant = "acme";
    await createResultCache([l1, cdn, l2], codec).write([{ key: "a", value: "A" }], tenant);
    const readStatus = async (layer: CacheLayer) =>
      (await createResultCache([layer], codec).read(["a"], NO_TENANT)).status;
    expect({
      l1: await readStatus(l1),
      cdn: await readStatus(cdn),
      l2: await readStatus(l2),
    }).toEqual({ l1: "l1", cdn: "miss", l2: "l2" });
    await createResultCache([cdn], codec).write([{ key: "b", value: "B" }], NO_TENANT);
    expect((await createResultCache([cdn], codec).read(["b"], tenant)).values).toEqual([undefined]);
  });
});

describe("the JSON codec", () => {
  it("treats bytes that it did not write as absent", async () => {
    const l1 = createLayer("l1");
    const values = {
      cut: new TextEncoder().encode('"A'),
      other: new TextEncoder().encode('{"x":1}'),
      binary: Uint8Array.of(0xff, 0),
    };
    await l1.store.set(
      Object.entries(values).map(([key, value]) => ({ key, value })),
      60,
    );
    expect(await createResultCache([l1], codec).read(Object.keys(values), NO_TENANT)).toEqual({
      values: [undefined, undefined, undefined],
      status: "miss",
    });
  });
});
