// The cache policy: which layer holds what, for how long, and what HTTP caches are told. What is not said here is not stored.
//
// | layer | is | asking it costs | holds |
// |---|---|---|---|
// | L1 | this isolate's memory | microseconds | every tenant's answers |
// | CDN | the data centre's cache, by a synthetic GET (Cache API) | about a millisecond, a subrequest, no money | answers that belong to no tenant |
// | L2 | one Redis for all isolates | a round trip, a command that is billed | every tenant's answers |
//
// They are asked in this order, the cheapest first, and what a later one has is put into those before it. An answer's key has
// its tenant and its manifest's digest in it (key.ts): no answer crosses from one tenant to another, and a version that an alias
// no longer names is not found any more, so that a time to live only bounds memory. No layer holds degraded answers or errors.
//
// Answers under /v2 are in no cache. Rows of a batch change each other's last digits (dynamic quantisation), so that only a whole request
// could be found again, tensors seldom repeat byte for byte, and a region's answer goes through as it came, with the client's id and form in
// it. Triton leaves its own cache off unless a model asks for it. Texts and images that repeat are asked over /v1.
//
// In front of the Worker there may be HTTP caches that know nothing but URLs. They keep what is asked for by its version's number,
// which never changes. An alias moves: its answers are revalidated each time, which costs no inference (the ETag follows
// from version and inputs), unless the operator says that promotions purge (`aliasSeconds`). While a canary takes a share of an alias,
// its answers are never kept: one kept answer would give all users behind that cache the same version, whatever the weights say.
// Cloudflare's Workers Caching is such a cache, but no purge of a zone reaches it: leave `aliasSeconds` at 0 with it. There is nothing for
// `vary` to name: no header changes an answer, and what credentials get is private.

import type { CacheStore } from "./cache-store.ts";

export type CacheLayerName = "l1" | "cdn" | "l2";
/** Where an answer came from: the slowest layer that was needed. `bypass` where the client wanted no cache. */
export type CacheStatus = CacheLayerName | "miss" | "bypass";
/** `only-if-cached`: what would have to be computed is refused. */
export type CacheMode = "use" | "bypass" | "refresh" | "only-if-cached";

export interface CacheLayer {
  readonly name: CacheLayerName;
  readonly store: CacheStore;
  readonly ttlSeconds: number;
}

/** The layers that may hold an answer, in order. */
export const selectLayers = (
  layers: readonly CacheLayer[],
  tenant: string,
): readonly CacheLayer[] => (tenant === "" ? layers : layers.filter(({ name }) => name !== "cdn"));

/** Whether any layer may hold what was computed. */
export const isStorable = ({ degraded }: { readonly degraded: boolean }): boolean => !degraded;

export interface CacheableResponse {
  readonly method: string;
  /** False where the request forbids it, or asks anew by what caches know it by: its URL or body. */
  readonly allowsStoring: boolean;
  /** Whether the request says who sent it. */
  readonly isPrivate: boolean;
  readonly isDegraded: boolean;
  /** Whether the request named the version by its number. */
  readonly isVersionPinned: boolean;
  /** Whether the version was drawn, since canaries take a share. */
  readonly isCanarySplit: boolean;
}

export interface HttpCacheDirectives {
  readonly cacheControl: string;
  /** For CDNs in place of `cacheControl` (RFC 9213): browsers, which nobody can purge, do not heed it. */
  readonly cdnCacheControl?: string;
  /** Whether any cache may keep the answer, be it to revalidate it each time: it then has an ETag. */
  readonly isCacheable: boolean;
  /** Whether caches may answer with it for others without asking: then nothing in it may be of this request. */
  readonly isSharedCacheable: boolean;
}

const HOUR_SECONDS = 3_600;
const DAY_SECONDS = 24 * HOUR_SECONDS;

/** Of a version by its number. A browser's copy cannot be purged, should the version be withdrawn: it is kept for an hour, and for a day while it is asked for. */
const IMMUTABLE_CACHE_CONTROL = `public, max-age=${HOUR_SECONDS}, s-maxage=${30 * DAY_SECONDS}, stale-while-revalidate=${DAY_SECONDS}, stale-if-error=${30 * DAY_SECONDS}, immutable`;

/** @param aliasSeconds for how long a CDN keeps an alias's answer, since promotions purge it; 0: not without asking */
export function computeHttpCacheDirectives(
  {
    method,
    allowsStoring: mayBeKept,
    isPrivate,
    isDegraded,
    isVersionPinned: isByNumber,
    isCanarySplit: isDrawn,
  }: CacheableResponse,
  aliasSeconds: number,
): HttpCacheDirectives {
  const isSafe = method === "GET" || method === "HEAD" || method === "QUERY";
  if (!isSafe || !mayBeKept || isDegraded)
    return { cacheControl: "no-store", isCacheable: false, isSharedCacheable: false };
  if (isPrivate)
    return { cacheControl: "private, no-cache", isCacheable: true, isSharedCacheable: false };
  if (isByNumber)
    return { cacheControl: IMMUTABLE_CACHE_CONTROL, isCacheable: true, isSharedCacheable: true };
  const revalidated = { cacheControl: "public, no-cache", isCacheable: true };
  if (isDrawn || aliasSeconds === 0) return { ...revalidated, isSharedCacheable: false };
  return {
    ...revalidated,
    cdnCacheControl: `public, max-age=${aliasSeconds}, stale-while-revalidate=${aliasSeconds}, stale-if-error=${DAY_SECONDS}`,
    isSharedCacheable: true,
  };
}

/** By which answers are purged: all of a model, of a version, or those that were asked for by an alias. */
export const cacheTags = {
  model: (model: string) => model,
  version: (model: string, version: number) => `${model}:${version}`,
  alias: (model: string, alias: string) => `${model}@${alias}`,
} as const;
