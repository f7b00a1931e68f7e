// Response cache: responses with their ETags. The built-in one lives as long as the page; an app may implement its own
// on persistent storage.

/**
 * Response in a {@link ResponseCache}.
 *
 * @example
 * import type { CachedResponse } from "edgetier/client";
 *
 * const toJson = (response: CachedResponse): string => JSON.stringify(response);
 */
export interface CachedResponse {
  readonly etag: string;
  /** Body as the server sent it. */
  readonly body: string;
}

/**
 * Storage for responses of single texts. Responses are private to a user, so each user needs a cache of their own.
 *
 * @example
 * import { createClient, type ResponseCache } from "edgetier/client";
 *
 * const responseCache: ResponseCache = {
 *   get: (key) => JSON.parse(localStorage.getItem(key) ?? "null") ?? undefined,
 *   set: (key, response) => localStorage.setItem(key, JSON.stringify(response)),
 * };
 * const client = createClient({ url: "https://predict.example.com", responseCache });
 */
export interface ResponseCache {
  get(key: string): CachedResponse | undefined | Promise<CachedResponse | undefined>;
  set(key: string, response: CachedResponse): void | Promise<void>;
}

/**
 * Creates an LRU cache in memory.
 *
 * @param maxEntries number of responses after which the least recently used one is evicted
 * @example
 * import { createClient, createResponseCache } from "edgetier/client";
 *
 * const responseCache = createResponseCache();
 * const client = createClient({ url: "https://predict.example.com", responseCache });
 */
export function createResponseCache(maxEntries = 200): ResponseCache {
  const entries = new Map<string, CachedResponse>();
  const set = (key: string, response: CachedResponse): void => {
    entries.delete(key);
    entries.set(key, response);
    if (entries.size > maxEntries)
      for (const oldestKey of entries.keys()) return void entries.delete(oldestKey);
  };
  return {
    set,
    get(key) {
      const response = entries.get(key);
      if (response !== undefined) set(key, response);
      return response;
    },
  };
}
