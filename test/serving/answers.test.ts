import { beforeEach, describe, expect, it } from "vitest";
import { type AnswerCache, createAnswerCache, jsonCodec } from "../../src/cache/answer-cache.ts";
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import type { CacheMode } from "../../src/cache/policy.ts";
import { systemClock } from "../../src/core/clock.ts";
import { answersOf, type AnswersRequest } from "../../src/serving/answers.ts";
import { requestContext } from "../support/request-context.ts";

let cache: AnswerCache<string>;
/** Of the inputs, each time something was computed. */
let computed: (readonly number[])[];
beforeEach(() => {
  const store = createLruCache({ maxBytes: 100_000, clock: systemClock });
  cache = createAnswerCache(
    [{ name: "l1", store, ttlSeconds: 60 }],
    jsonCodec((value) => (typeof value === "string" ? value : undefined)),
  );
  computed = [];
});

/** The answer to an input is its key and how often something has been computed. */
const ask = (
  keys: readonly string[],
  mode: CacheMode = "use",
  more: Partial<AnswersRequest<string>> = {},
) =>
  answersOf(cache, {
    keys,
    mode,
    context: requestContext(systemClock),
    async compute(missing) {
      computed.push(missing);
      return missing.map((index) => `${keys[index]}${computed.length}`);
    },
    ...more,
  });

describe("the answers to a request's inputs", () => {
  it("are computed once for equal inputs, and put where they belong", async () => {
    expect(await ask(["a", "b", "a", "c", "b"])).toEqual({
      values: ["a1", "b1", "a1", "c1", "b1"],
      result: "miss",
    });
    expect(computed).toEqual([[0, 1, 3]]);
  });

  it("are computed only where no cache has them", async () => {
    await ask(["b"]);
    expect(await ask(["a", "b", "c"])).toEqual({ values: ["a2", "b1", "c2"], result: "miss" });
    expect(computed).toEqual([[0], [0, 2]]);
    expect(await ask(["c", "a"])).toEqual({ values: ["c2", "a2"], result: "l1" });
  });

  it("are neither looked up, stored nor shared on bypass", async () => {
    await ask(["a"]);
    expect(await ask(["a", "a"], "bypass")).toEqual({ values: ["a2", "a2"], result: "bypass" });
    expect(computed).toEqual([[0], [0, 1]]);
    expect((await ask(["a"])).values).toEqual(["a1"]);
  });

  it("are new, and stored, on refresh", async () => {
    await ask(["a"]);
    expect(await ask(["a", "a"], "refresh")).toEqual({ values: ["a2", "a2"], result: "miss" });
    expect(await ask(["a"])).toEqual({ values: ["a2"], result: "l1" });
  });

  it("are refused where nothing may be computed", async () => {
    await ask(["a"]);
    expect((await ask(["a"], "only-if-cached")).result).toBe("l1");
    await expect(ask(["a", "b", "c", "b"], "only-if-cached")).rejects.toMatchObject({
      code: "not_cached",
      status: 504,
      detail: expect.stringContaining("2 of the inputs"),
    });
  });

  it("are not stored, and not used, where the request says so", async () => {
    await ask(["a", "b"], "use", { isStorable: (value) => !value.startsWith("a") });
    expect((await ask(["a", "b"])).values).toEqual(["a2", "b1"]);
    expect((await ask(["b"], "use", { isUsable: () => false })).values).toEqual(["b3"]);
  });

  it("are not stored when computing them failed", async () => {
    await expect(
      ask(["a"], "use", { compute: () => Promise.reject(new Error("no")) }),
    ).rejects.toThrow("no");
    expect((await ask(["a"])).result).toBe("miss");
  });
});
