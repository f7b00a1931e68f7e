// Cache layers: creates the configured layers of the result cache, in lookup order.

import type { CacheLayer, CacheLayerName } from "../../src/cache/cache-policy.ts";
import type { CacheStore } from "../../src/cache/cache-store.ts";
import { createCacheCircuitBreaker } from "../../src/cache/circuit-breaker.ts";
import { createCircuitBreakingStore } from "../../src/cache/circuit-breaking-store.ts";
import { createCdnCache, type HttpCache } from "../../src/cache/drivers/cdn.ts";
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import { createUpstashCache } from "../../src/cache/drivers/upstash.ts";
import { createHashedKeyStore } from "../../src/cache/hashed-key-store.ts";
import type { Clock } from "../../src/core/clock.ts";
import { reasonOf } from "../../src/core/errors.ts";
import type { EdgeConfig } from "../../src/http/config.ts";

export function createCacheLayers(
  config: EdgeConfig,
  clock: Clock,
  log: (record: Readonly<Record<string, unknown>>) => void,
): readonly CacheLayer[] {
  const createExternalLayer = (
    name: CacheLayerName,
    store: CacheStore,
    ttlSeconds: number,
  ): CacheLayer => {
    const onFailure = (operation: string, error: unknown) =>
      log({ level: "warn", event: `${name}_failed`, operation, cause: reasonOf(error) });
    return {
      name,
      store: createCircuitBreakingStore(
        createHashedKeyStore(store),
        createCacheCircuitBreaker({ clock }),
        onFailure,
      ),
      ttlSeconds,
    };
  };
  const {
    EDGETIER_REDIS_REST_URL: url,
    EDGETIER_REDIS_REST_TOKEN: token,
    EDGETIER_REDIS_TIMEOUT_MS: timeoutMs,
  } = config;
  const ttlSeconds = config.EDGETIER_CACHE_TTL_SECONDS;
  const cdn = config.EDGETIER_CDN_CACHE === "on" ? platformCache() : undefined;
  return [
    {
      name: "l1",
      store: createLruCache({ maxBytes: config.EDGETIER_L1_MAX_BYTES, clock }),
      ttlSeconds,
    },
    ...(cdn === undefined
      ? []
      : [
          createExternalLayer(
            "cdn",
            createCdnCache({ cache: cdn, clock, timeoutMs: config.EDGETIER_CDN_TIMEOUT_MS }),
            ttlSeconds,
          ),
        ]),
    ...(url === undefined || token === undefined
      ? []
      : [
          createExternalLayer(
            "l2",
            createUpstashCache({ url, token, timeoutMs }),
            config.EDGETIER_L2_TTL_SECONDS,
          ),
        ]),
  ];
}

/** Absent outside Workers. */
function platformCache(): HttpCache | undefined {
  return (globalThis as { readonly caches?: { readonly default?: HttpCache } }).caches?.default;
}
