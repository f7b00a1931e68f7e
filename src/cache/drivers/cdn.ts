// CDN layer: a CacheStore in the data center's HTTP cache, through the Cache API. Each key is a URL on a reserved host
// (RFC 2606) that clients cannot reach. Client requests therefore never read entries, and entries never answer requests.
// The layer stores nothing on platforms such as workers.dev, on which the Cache API has no effect.

import type { Clock } from "../../core/clock.ts";
import type { CacheStore } from "../cache-store.ts";
import { cacheErrors } from "../errors.ts";

/** Subset of the Cache API's `Cache`. */
export interface HttpCache {
  match(url: string): Promise<Response | undefined>;
  put(url: string, response: Response): Promise<void>;
}

export interface CdnCacheOptions {
  /** Usually `caches.default` of a Worker. */
  readonly cache: HttpCache;
  readonly clock: Clock;
  /** Timeout of one call with all its keys. */
  readonly timeoutMs: number;
  /** Limits the keys per call: each is a subrequest, an invocation has few, and at most six run concurrently. */
  readonly maxKeys?: number;
}

const BASE_URL = "https://answers.edgetier.invalid/";

export function createCdnCache({
  cache,
  clock,
  timeoutMs,
  maxKeys = 6,
}: CdnCacheOptions): CacheStore {
  const urlOf = (key: string) => `${BASE_URL}${encodeURIComponent(key)}`;

  async function read(key: string): Promise<Uint8Array | undefined> {
    const response = await cache.match(urlOf(key));
    if (response === undefined) return undefined;
    return new Uint8Array(await response.arrayBuffer());
  }

  return {
    async get(keys) {
      const found = await withTimeout(
        Promise.all(keys.slice(0, maxKeys).map(read)),
        clock,
        timeoutMs,
      );
      return keys.map((_, index) => found[index]);
    },
    async set(entries, ttlSeconds) {
      const headers = {
        "cache-control": `public, max-age=${ttlSeconds}`,
        "content-type": "application/octet-stream",
      };
      const stored = entries.slice(0, maxKeys);
      await Promise.all(
        stored.map(({ key, value }) =>
          cache.put(urlOf(key), new Response(new Uint8Array(value), { headers })),
        ),
      );
    },
  };
}

async function withTimeout<Result>(
  operation: Promise<Result>,
  clock: Clock,
  timeoutMs: number,
): Promise<Result> {
  let cancel = () => {};
  const timeout = new Promise<never>((_, reject) => {
    cancel = clock.setTimer(() => reject(cacheErrors.cacheTooSlow(timeoutMs)), timeoutMs);
  });
  try {
    return await Promise.race([operation, timeout]);
  } finally {
    cancel();
  }
}
