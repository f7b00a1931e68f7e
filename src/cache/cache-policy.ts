// Cache policy: decides which layer stores which responses, for how long, and which directives HTTP caches receive.
//
// - L1 is the memory of this isolate. A lookup costs microseconds. It stores the responses of every tenant.
// - CDN is the cache of the data center, through a synthetic GET (Cache API). A lookup costs about a millisecond and a
//   subrequest, but no money. It stores responses without a tenant only.
// - L2 is one Redis for all isolates. A lookup costs a round trip and a billed command. It stores the responses of every
//   tenant.
//
// Lookups query the layers in this order, cheapest first, and copy hits of later layers into earlier ones. A key contains
// the tenant and the manifest digest (cache-key.ts), so responses never cross tenants. When an alias moves, lookups no
// longer find the old version. A time to live therefore only bounds memory. No layer stores degraded responses or errors.
//
// Responses under /v2 are not cached, for three reasons. With dynamic quantization, the rows of a batch change each
// other's last digits, so only a whole request could be cached. Tensors seldom repeat byte for byte. A region's response
// passes through unchanged, with the client's id and encoding. Triton's own cache is also off unless a model enables it.
// Texts and images that repeat use /v1.
//
// HTTP caches in front of the Worker know only URLs. They store responses for pinned versions, which never change. The
// responses of an alias are revalidated each time, because an alias can move. Revalidation costs no inference, because
// the ETag follows from version and inputs. With `aliasSeconds`, promotions purge instead. While a canary takes a share
// of an alias, its responses are never stored. A stored response would give all users behind that cache the same version
// and so bypass the weights. Zone purges do not reach Cloudflare's Workers Caching, which requires `aliasSeconds` 0.
// Responses have no `vary` header, because no request header changes them and authenticated responses are private.

import type { CacheStore } from "./cache-store.ts";

export type CacheLayerName = "l1" | "cdn" | "l2";
/** Origin of a response: the slowest layer used, or `bypass` if the client disabled the cache. */
export type CacheStatus = CacheLayerName | "miss" | "bypass";
/** `only-if-cached` rejects a request on a cache miss. */
export type CacheMode = "use" | "bypass" | "refresh" | "only-if-cached";

export interface CacheLayer {
  readonly name: CacheLayerName;
  readonly store: CacheStore;
  readonly ttlSeconds: number;
}

/** Returns the layers that may store a tenant's responses, in order. */
export const selectLayers = (
  layers: readonly CacheLayer[],
  tenant: string,
): readonly CacheLayer[] => (tenant === "" ? layers : layers.filter(({ name }) => name !== "cdn"));

export const isStorable = ({ degraded }: { readonly degraded: boolean }): boolean => !degraded;

export interface CacheableResponse {
  readonly method: string;
  /** False if the request forbids storing, or if its URL or body selects a cache mode. */
  readonly allowsStoring: boolean;
  /** Whether the request has credentials. */
  readonly isPrivate: boolean;
  readonly isDegraded: boolean;
  /** Whether the request named the version by number. */
  readonly isVersionPinned: boolean;
  /** Whether the version was drawn by weight, because canaries take a share. */
  readonly isCanarySplit: boolean;
}

export interface HttpCacheDirectives {
  readonly cacheControl: string;
  /** Replaces `cacheControl` for CDNs (RFC 9213). Browsers ignore it, and their copies cannot be purged. */
  readonly cdnCacheControl?: string;
  /** Whether a cache may store the response, even if it must revalidate it each time. The response then has an ETag. */
  readonly isCacheable: boolean;
  /** Whether caches may reuse the response for other clients without revalidation. It then has no per-request content. */
  readonly isSharedCacheable: boolean;
}

const HOUR_SECONDS = 3_600;
const DAY_SECONDS = 24 * HOUR_SECONDS;

/**
 * Directives for a pinned version. Browser copies stay for an hour only, plus a day of revalidation in the background,
 * because they cannot be purged if the version is withdrawn.
 */
const IMMUTABLE_CACHE_CONTROL = `public, max-age=${HOUR_SECONDS}, s-maxage=${30 * DAY_SECONDS}, stale-while-revalidate=${DAY_SECONDS}, stale-if-error=${30 * DAY_SECONDS}, immutable`;

/** @param aliasSeconds how long a CDN reuses the response of an alias that promotions purge; 0 revalidates each time */
export function computeHttpCacheDirectives(
  {
    method,
    allowsStoring,
    isPrivate,
    isDegraded,
    isVersionPinned,
    isCanarySplit,
  }: CacheableResponse,
  aliasSeconds: number,
): HttpCacheDirectives {
  const isSafe = method === "GET" || method === "HEAD" || method === "QUERY";
  if (!isSafe || !allowsStoring || isDegraded)
    return { cacheControl: "no-store", isCacheable: false, isSharedCacheable: false };
  if (isPrivate)
    return { cacheControl: "private, no-cache", isCacheable: true, isSharedCacheable: false };
  if (isVersionPinned)
    return { cacheControl: IMMUTABLE_CACHE_CONTROL, isCacheable: true, isSharedCacheable: true };
  const revalidated = { cacheControl: "public, no-cache", isCacheable: true };
  if (isCanarySplit || aliasSeconds === 0) return { ...revalidated, isSharedCacheable: false };
  return {
    ...revalidated,
    cdnCacheControl: `public, max-age=${aliasSeconds}, stale-while-revalidate=${aliasSeconds}, stale-if-error=${DAY_SECONDS}`,
    isSharedCacheable: true,
  };
}

/** Purge tags: all responses of a model, of a version, or of an alias. */
export const cacheTags = {
  model: (model: string) => model,
  version: (model: string, version: number) => `${model}:${version}`,
  alias: (model: string, alias: string) => `${model}@${alias}`,
} as const;
