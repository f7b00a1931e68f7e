// The CDN layer: a CacheStore in the data centre's HTTP cache, through the Cache API. Each value is the answer to a GET that
// nobody can send: a key's URL is on a host that does not exist (RFC 2606), so that neither does a request reach what is stored
// nor what is stored answer a request. Nothing is kept where the platform gives the API no effect, as on workers.dev.

import { cacheErrors } from "../errors.ts";
import type { Clock } from "../../core/clock.ts";
import type { CacheStore } from "../cache-store.ts";

/** What of the Cache API's `Cache` is used. */
export interface HttpCache {
  match(url: string): Promise<Response | undefined>;
  put(url: string, response: Response): Promise<void>;
}

export interface CdnCacheOptions {
  /** `caches.default` of a Worker. */
  readonly cache: HttpCache;
  readonly clock: Clock;
  /** For all keys of one call. */
  readonly timeoutMs: number;
  /** Each key is a subrequest, of which an invocation has few, and six run at a time: no more are asked for. */
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
  work: Promise<Result>,
  clock: Clock,
  timeoutMs: number,
): Promise<Result> {
  let cancel = () => {};
  const late = new Promise<never>((_, reject) => {
    cancel = clock.setTimer(() => reject(cacheErrors.cacheTooSlow(timeoutMs)), timeoutMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    cancel();
  }
}
