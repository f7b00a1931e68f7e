import { describe, expect, it } from "vitest";
import { createCacheCircuitBreaker } from "../../src/cache/circuit-breaker.ts";
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import { createCircuitBreakingStore } from "../../src/cache/circuit-breaking-store.ts";
import { ManualClock } from "../../src/core/clock.ts";
import { cacheStoreContract } from "../contract/cache-store.ts";

cacheStoreContract("guarded, over lru", async () => {
  const clock = new ManualClock();
  const cache = createCircuitBreakingStore(
    createLruCache({ maxBytes: 1_000_000, clock }),
    createCacheCircuitBreaker({ clock }),
  );
  return { cache, pass: async (seconds) => clock.advance(seconds * 1000) };
});

describe("a guarded store", () => {
  it("gives nothing where the store fails, says so once, and asks again by a write", async () => {
    const clock = new ManualClock();
    const under = createLruCache({ maxBytes: 1_000_000, clock });
    const calls: string[] = [];
    const failures: string[] = [];
    let isAway = true;
    const through = async <Result>(
      operation: string,
      call: () => Promise<Result>,
    ): Promise<Result> => {
      calls.push(operation);
      if (isAway) throw new Error("refused");
      return await call();
    };
    const flaky = {
      get: (keys: readonly string[]) => through("get", () => under.get(keys)),
      set: (entries: Parameters<typeof under.set>[0], ttl: number) =>
        through("set", () => under.set(entries, ttl)),
    };
    const store = createCircuitBreakingStore(
      flaky,
      createCacheCircuitBreaker({ clock, minOpenMs: 1_000 }),
      (operation) => failures.push(operation),
    );
    const entries = [{ key: "a", value: Uint8Array.of(1) }];

    expect(await store.get(["a", "b"])).toEqual([undefined, undefined]);
    await store.set(entries, 60);
    expect(await store.get(["a"])).toEqual([undefined]);
    expect({ calls, failures }).toEqual({ calls: ["get"], failures: ["get"] });

    isAway = false;
    clock.advance(1_000);
    expect(await store.get(["a"])).toEqual([undefined]); // no client waits for a probe
    await store.set(entries, 60);
    expect(await store.get(["a"])).toEqual([Uint8Array.of(1)]);
    expect(calls).toEqual(["get", "set", "get"]);
  });
});
