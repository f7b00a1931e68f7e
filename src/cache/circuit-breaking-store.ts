// A store that may be away, as one that never fails: what it cannot give is absent, and while its breaker is open it is not asked.

import type { CacheStore } from "./cache-store.ts";
import type { CacheCircuitBreaker } from "./circuit-breaker.ts";

/** @param onFailure told of every failure; while the breaker is open there are none */
export function createCircuitBreakingStore(
  store: CacheStore,
  breaker: CacheCircuitBreaker,
  onFailure: (operation: "get" | "set", error: unknown) => void = () => {},
): CacheStore {
  async function guarded<Result>(
    operation: "get" | "set",
    otherwise: Result,
    call: () => Promise<Result>,
  ): Promise<Result> {
    if (!breaker.tryAcquire(operation === "get")) return otherwise;
    try {
      const result = await call();
      breaker.recordSuccess();
      return result;
    } catch (error) {
      breaker.recordFailure();
      onFailure(operation, error);
      return otherwise;
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
