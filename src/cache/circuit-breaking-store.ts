// Wraps an unreliable store so that it never fails: failed reads return nothing, and an open breaker skips calls.

import type { CacheStore } from "./cache-store.ts";
import type { CacheCircuitBreaker } from "./circuit-breaker.ts";

/** @param onFailure receives each failure; there are none while the breaker is open */
export function createCircuitBreakingStore(
  store: CacheStore,
  breaker: CacheCircuitBreaker,
  onFailure: (operation: "get" | "set", error: unknown) => void = () => {},
): CacheStore {
  async function guarded<Result>(
    operation: "get" | "set",
    fallback: Result,
    call: () => Promise<Result>,
  ): Promise<Result> {
    if (!breaker.tryAcquire(operation === "get")) return fallback;
    try {
      const result = await call();
      breaker.recordSuccess();
      return result;
    } catch (error) {
      breaker.recordFailure();
      onFailure(operation, error);
      return fallback;
    }
  }

  return {
    get: async (keys) =>
      keys.length === 0
        ? []
        : await guarded(
            "get",
            keys.map(() => undefined),
            () => store.get(keys),
          ),
    set: async (entries, ttlSeconds) =>
      entries.length === 0
        ? undefined
        : await guarded("set", undefined, () => store.set(entries, ttlSeconds)),
  };
}
