// Read-through cache: cache modes, duplicates and failures.
import { beforeEach, describe, expect, it } from "vitest";
import type { CacheMode } from "../../src/cache/cache-policy.ts";
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import {
  type ResultCache,
  createResultCache,
  createJsonCodec,
} from "../../src/cache/result-cache.ts";
import { systemClock } from "../../src/core/clock.ts";
import { readThrough, type ReadThroughRequest } from "../../src/serving/read-through.ts";
import { createRequestContext } from "../support/request-context.ts";

let cache: ResultCache<string>;
/** Indexes of the inputs of each computation. */
let computed: (readonly number[])[];
beforeEach(() => {
  const store = createLruCache({ maxBytes: 100_000, clock: systemClock });
  cache = createResultCache(
    [{ name: "l1", store, ttlSeconds: 60 }],
    createJsonCodec((value) => (typeof value === "string" ? value : undefined)),
  );
  computed = [];
});

/** The result of an input is its key with the number of computations so far. */
const readThroughCache = (
  keys: readonly string[],
  cacheMode: CacheMode = "use",
  options: Partial<ReadThroughRequest<string>> = {},
) =>
  readThrough(cache, {
    keys,
    cacheMode,
    context: createRequestContext(systemClock),
    async compute(missing) {
      computed.push(missing);
      return missing.map((index) => `${keys[index]}${computed.length}`);
    },
    ...options,
  });

describe("readThrough", () => {
  it("computes equal inputs once, and returns results in order", async () => {
    expect(await readThroughCache(["a", "b", "a", "c", "b"])).toEqual({
      values: ["a1", "b1", "a1", "c1", "b1"],
      cacheResult: "miss",
    });
    expect(computed).toEqual([[0, 1, 3]]);
  });

  it("computes only inputs that are not cached", async () => {
    await readThroughCache(["b"]);
    expect(await readThroughCache(["a", "b", "c"])).toEqual({
      values: ["a2", "b1", "c2"],
      cacheResult: "miss",
    });
    expect(computed).toEqual([[0], [0, 2]]);
    expect(await readThroughCache(["c", "a"])).toEqual({ values: ["c2", "a2"], cacheResult: "l1" });
  });

  it("neither reads, stores nor shares results on bypass", async () => {
    await readThroughCache(["a"]);
    expect(await readThroughCache(["a", "a"], "bypass")).toEqual({
      values: ["a2", "a2"],
      cacheResult: "bypass",
    });
    expect(computed).toEqual([[0], [0, 1]]);
    expect((await readThroughCache(["a"])).values).toEqual(["a1"]);
  });

  it("computes and stores new results on refresh", async () => {
    await readThroughCache(["a"]);
    expect(await readThroughCache(["a", "a"], "refresh")).toEqual({
      values: ["a2", "a2"],
      cacheResult: "miss",
    });
    expect(await readThroughCache(["a"])).toEqual({ values: ["a2"], cacheResult: "l1" });
  });

  it("rejects missing results if computing is forbidden", async () => {
    await readThroughCache(["a"]);
    expect((await readThroughCache(["a"], "only-if-cached")).cacheResult).toBe("l1");
    await expect(readThroughCache(["a", "b", "c", "b"], "only-if-cached")).rejects.toMatchObject({
      code: "not_cached",
      status: 504,
      facts: { inputs: 2 },
    });
  });

  it("neither stores nor uses results that the request excludes", async () => {
    await readThroughCache(["a", "b"], "use", { isStorable: (value) => !value.startsWith("a") });
    expect((await readThroughCache(["a", "b"])).values).toEqual(["a2", "b1"]);
    expect((await readThroughCache(["b"], "use", { isUsable: () => false })).values).toEqual([
      "b3",
    ]);
  });

  it("stores nothing after a failed computation", async () => {
    const failure = new Error("no");
    await expect(
      readThroughCache(["a"], "use", { compute: () => Promise.reject(failure) }),
    ).rejects.toBe(failure);
    expect((await readThroughCache(["a"])).cacheResult).toBe("miss");
  });
});
