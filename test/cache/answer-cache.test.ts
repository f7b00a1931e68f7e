import { describe, expect, it } from "vitest";
import { createAnswerCache } from "../../src/cache/answer-cache.ts";
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import { cacheKey, sharedCacheKey } from "../../src/cache/key.ts";
import { systemClock } from "../../src/core/clock.ts";

const layer = () => createLruCache({ maxBytes: 1_000_000, clock: systemClock });
const decode = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
const bytes = (text: string) => new TextEncoder().encode(text);

describe("the answer cache", () => {
  it("answers from L1, then from L2, then not at all", async () => {
    const l2 = layer();
    const isolate1 = createAnswerCache({ l1: layer(), l2, ttlSeconds: 60 }, decode);
    const isolate2 = createAnswerCache({ l1: layer(), l2, ttlSeconds: 60 }, decode);
    await isolate1.write([{ key: "a", value: "A" }], "use");
    expect(await isolate1.read(["a"], "use")).toEqual({ values: ["A"], layer: "l1" });
    expect(await isolate2.read(["a"], "use")).toEqual({ values: ["A"], layer: "l2" });
    expect(await isolate2.read(["a"], "use")).toEqual({ values: ["A"], layer: "l1" });
    expect(await isolate2.read(["a", "b"], "use")).toEqual({ values: ["A", undefined], layer: "miss" });
  });

  it("neither reads nor stores on bypass; stores but does not read on refresh", async () => {
    const cache = createAnswerCache({ l1: layer(), l2: undefined, ttlSeconds: 60 }, decode);
    await cache.write([{ key: "a", value: "old" }], "use");
    expect(await cache.read(["a"], "bypass")).toEqual({ values: [undefined], layer: "bypass" });
    expect(await cache.read(["a"], "refresh")).toEqual({ values: [undefined], layer: "miss" });
    await cache.write([{ key: "a", value: "bypassed" }], "bypass");
    expect((await cache.read(["a"], "use")).values).toEqual(["old"]);
    await cache.write([{ key: "a", value: "new" }], "refresh");
    expect((await cache.read(["a"], "use")).values).toEqual(["new"]);
  });

  it("takes a poisoned or truncated value for absent", async () => {
    const l2 = layer();
    const poison = { cut: bytes('"A'), other: bytes('{"x":1}'), binary: Uint8Array.of(0xff, 0) };
    for (const [key, value] of Object.entries(poison)) await l2.set([{ key: await sharedCacheKey(key), value }], 60);
    const cache = createAnswerCache({ l1: layer(), l2, ttlSeconds: 60 }, decode);
    expect(await cache.read(["cut", "other", "binary"], "use")).toEqual({ values: [undefined, undefined, undefined], layer: "miss" });
  });
});

describe("the cache key", () => {
  const identity = { model: "m", version: 1, manifestDigest: "d", parameters: { topK: 5, maxTier: undefined }, input: "x" };

  it("is the same for the same request, and differs in every field", async () => {
    const others = [
      { ...identity, model: "n" },
      { ...identity, version: 2 },
      { ...identity, manifestDigest: "e" },
      { ...identity, parameters: { topK: 6, maxTier: undefined } },
      { ...identity, parameters: { topK: 5, maxTier: "edge" } },
      { ...identity, input: "y" },
      { ...identity, model: "m1", version: 1 },
      { ...identity, manifestDigest: "", input: "dx" },
    ];
    const keys = [identity, ...others].map(cacheKey);
    const shared = await Promise.all(keys.map(sharedCacheKey));
    expect(new Set(keys).size).toBe(keys.length);
    expect(new Set(shared).size).toBe(keys.length);
    expect(cacheKey({ ...identity })).toBe(keys[0]);
    expect(shared[0]).toMatch(/^edgetier:[0-9a-f]{64}$/);
  });
});
