import { describe, expect, it } from "vitest";
import { createCacheCircuitBreaker } from "../../src/cache/circuit-breaker.ts";
import { createCircuitBreakingStore } from "../../src/cache/circuit-breaking-store.ts";
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import { ManualClock } from "../../src/core/clock.ts";
import { cacheStoreContract } from "../contract/cache-store.ts";

cacheStoreContract("circuit-breaking, over lru", async () => {
  const clock = new ManualClock();
  const cache = createCircuitBreakingStore(
    createLruCache({ maxBytes: 1_000_000, clock }),
    createCacheCircuitBreaker({ clock }),
  );
  return { cache, pass: async (seconds) => clock.advance(seconds * 1000) };
});

describe("a circuit-breaking store", () => {
  it("returns nothing if the store fails, reports it once, and probes again with a write", async () => {
    const clock = new ManualClock();
    const inner = createLruCache({ maxBytes: 1_000_000, clock });
    const calls: string[] = [];
    const failures: string[] = [];
    let isAway = true;
    const forward = async <Result>(
      operation: string,
      call: () => Promise<Result>,
    ): Promise<Result> => {
      calls.push(operation);
      if (isAway) throw new Error("connection closed");
      return await call();
    };
    const flaky = {
      get: (keys: readonly string[]) => forward("get", () => inner.get(keys)),
      set: (entries: Parameters<typeof inner.set>[0], ttl: number) =>
        forward("set", () => inner.set(entries, ttl)),
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
    expect(await store.get(["a"])).toEqual([undefined]); // an awaited call does not probe first
    await store.set(entries, 60);
    expect(await store.get(["a"])).toEqual([Uint8Array.of(1)]);
    expect(calls).toEqual(["get", "set", "get"]);
  });
});
