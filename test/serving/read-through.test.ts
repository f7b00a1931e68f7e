import { beforeEach, describe, expect, it } from "vitest";
import {
  type ResultCache,
  createResultCache,
  createJsonCodec,
} from "../../src/cache/result-cache.ts";
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import type { CacheMode } from "../../src/cache/cache-policy.ts";
import { systemClock } from "../../src/core/clock.ts";
import { readThrough, type ReadThroughRequest } from "../../src/serving/read-through.ts";
import { createRequestContext } from "../support/request-context.ts";

let cache: ResultCache<string>;
/** Of the inputs, each time something was computed. */
let computed: (readonly number[])[];
beforeEach(() => {
  const store = createLruCache({ maxBytes: 100_000, clock: systemClock });
  cache = createResultCache(
    [{ name: "l1", store, ttlSeconds: 60 }],
    createJsonCodec((value) => (typeof value === "string" ? value : undefined)),
  );
  computed = [];
});

/** The answer to an input is its key and how often something has been computed. */
const readThroughCache = (
  keys: readonly string[],
  mode: CacheMode = "use",
  more: Partial<ReadThroughRequest<string>> = {},
) =>
  readThrough(cache, {
    keys,
    cacheMode: mode,
    context: createRequestContext(systemClock),
    async compute(missing) {
      computed.push(missing);
      return missing.map((index) => `${keys[index]}${computed.length}`);
    },
    ...more,
  });

describe("the answers to a request's inputs", () => {
  it("are computed once for equal inputs, and put where they belong", async () => {
    expect(await readThroughCache(["a", "b", "a", "c", "b"])).toEqual({
      values: ["a1", "b1", "a1", "c1", "b1"],
      cacheResult: "miss",
    });
    expect(computed).toEqual([[0, 1, 3]]);
  });

  it("are computed only where no cache has them", async () => {
    await readThroughCache(["b"]);
    expect(await readThroughCache(["a", "b", "c"])).toEqual({
      values: ["a2", "b1", "c2"],
      cacheResult: "miss",
    });
    expect(computed).toEqual([[0], [0, 2]]);
    expect(await readThroughCache(["c", "a"])).toEqual({ values: ["c2", "a2"], cacheResult: "l1" });
  });

  it("are neither looked up, stored nor shared on bypass", async () => {
    await readThroughCache(["a"]);
    expect(await readThroughCache(["a", "a"], "bypass")).toEqual({
      values: ["a2", "a2"],
      cacheResult: "bypass",
    });
    expect(computed).toEqual([[0], [0, 1]]);
    expect((await readThroughCache(["a"])).values).toEqual(["a1"]);
  });

  it("are new, and stored, on refresh", async () => {
    await readThroughCache(["a"]);
    expect(await readThroughCache(["a", "a"], "refresh")).toEqual({
      values: ["a2", "a2"],
      cacheResult: "miss",
    });
    expect(await readThroughCache(["a"])).toEqual({ values: ["a2"], cacheResult: "l1" });
  });

  it("are refused where nothing may be computed", async () => {
    await readThroughCache(["a"]);
    expect((await readThroughCache(["a"], "only-if-cached")).cacheResult).toBe("l1");
    await expect(readThroughCache(["a", "b", "c", "b"], "only-if-cached")).rejects.toMatchObject({
      code: "not_cached",
      status: 504,
      detail: expect.stringContaining("2 of the inputs"),
    });
  });

  it("are not stored, and not used, where the request says so", async () => {
    await readThroughCache(["a", "b"], "use", { isStorable: (value) => !value.startsWith("a") });
    expect((await readThroughCache(["a", "b"])).values).toEqual(["a2", "b1"]);
    expect((await readThroughCache(["b"], "use", { isUsable: () => false })).values).toEqual([
      "b3",
    ]);
  });

  it("are not stored when computing them failed", async () => {
    await expect(
      readThroughCache(["a"], "use", { compute: () => Promise.reject(new Error("no")) }),
    ).rejects.toThrow("no");
    expect((await readThroughCache(["a"])).cacheResult).toBe("miss");
  });
});
