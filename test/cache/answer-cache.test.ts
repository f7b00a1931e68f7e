import { describe, expect, it } from "vitest";
import { createAnswerCache, jsonCodec } from "../../src/cache/answer-cache.ts";
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import type { CacheLayer, CacheLayerName } from "../../src/cache/policy.ts";
import { systemClock } from "../../src/core/clock.ts";

const layer = (name: CacheLayerName): CacheLayer => ({
  name,
  store: createLruCache({ maxBytes: 1_000_000, clock: systemClock }),
  ttlSeconds: 60,
});
const codec = jsonCodec((value) => (typeof value === "string" ? value : undefined));
const NOBODY = "";

describe("the answer cache", () => {
  it("asks L1, then the CDN, then L2, and fills those before from those behind", async () => {
    const [cdn, l2] = [layer("cdn"), layer("l2")];
    const elsewhere = createAnswerCache([layer("l1"), layer("cdn"), l2], codec);
    await elsewhere.write([{ key: "a", value: "A" }], NOBODY);
    expect(await elsewhere.read(["a"], NOBODY)).toEqual({ values: ["A"], result: "l1" });

    const here = createAnswerCache([layer("l1"), cdn, l2], codec);
    const { values, result, filled } = await here.read(["a"], NOBODY);
    await filled;
    expect({ values, result }).toEqual({ values: ["A"], result: "l2" });
    expect(await here.read(["a"], NOBODY)).toEqual({ values: ["A"], result: "l1" });
    expect(await createAnswerCache([layer("l1"), cdn], codec).read(["a"], NOBODY)).toMatchObject({
      values: ["A"],
      result: "cdn",
    });
    expect(await here.read(["a", "b"], NOBODY)).toEqual({
      values: ["A", undefined],
      result: "miss",
    });
  });

  it("tells the slowest layer that was needed", async () => {
    const [l1, l2] = [layer("l1"), layer("l2")];
    await createAnswerCache([l2], codec).write([{ key: "b", value: "B" }], NOBODY);
    await createAnswerCache([l1], codec).write([{ key: "a", value: "A" }], NOBODY);
    expect(await createAnswerCache([l1, l2], codec).read(["a", "b"], NOBODY)).toMatchObject({
      values: ["A", "B"],
      result: "l2",
    });
  });

  it("keeps a tenant's answers out of the CDN, and nowhere else", async () => {
    const layers = [layer("l1"), layer("cdn"), layer("l2")] as const;
    const own = "acme";
    await createAnswerCache(layers, codec).write([{ key: "a", value: "A" }], own);
    const found = await Promise.all(
      layers.map(async (one) => (await createAnswerCache([one], codec).read(["a"], NOBODY)).result),
    );
    expect(found).toEqual(["l1", "miss", "l2"]);
    await createAnswerCache([layers[1]], codec).write([{ key: "b", value: "B" }], NOBODY);
    expect((await createAnswerCache([layers[1]], codec).read(["b"], own)).values).toEqual([
      undefined,
    ]);
  });

  it("takes what it did not write for absent", async () => {
    const l1 = layer("l1");
    const values = {
      cut: new TextEncoder().encode('"A'),
      other: new TextEncoder().encode('{"x":1}'),
      binary: Uint8Array.of(0xff, 0),
    };
    await l1.store.set(
      Object.entries(values).map(([key, value]) => ({ key, value })),
      60,
    );
    expect(await createAnswerCache([l1], codec).read(Object.keys(values), NOBODY)).toEqual({
      values: [undefined, undefined, undefined],
      result: "miss",
    });
  });
});
